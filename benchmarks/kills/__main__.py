"""`gtpo-lit` with a fault: ``python -m benchmarks.kills fit ...``, told by the environment.

GTPO_LIT_KILL is `point;call;rank`: the name of a point, at which call of it the process dies, and
on which rank (-1: any). The processes that Lightning starts run this module, too.
"""

from __future__ import annotations

import importlib
import os
import signal
from typing import Any

from benchmarks.kills.points import POINTS

KILL = "GTPO_LIT_KILL"


def install(text: str) -> None:
    """Patch the point of this process, if it is the rank's turn."""
    name, call, rank = text.split(";")
    if int(rank) not in (-1, int(os.environ.get("LOCAL_RANK", "0"))):
        return
    point, calls = POINTS[name], 0
    module, _, path = point.target.partition(":")
    *parents, last = path.split(".")
    owner: Any = importlib.import_module(module)
    for parent in parents:
        owner = getattr(owner, parent)
    plain = getattr(owner, last)

    def patched(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        counts = point.accept(arguments)
        calls += counts
        if counts and point.when == "before" and calls == int(call):
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*arguments, **options)
        if counts and point.when == "after" and calls == int(call):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, patched)


if __name__ == "__main__":
    if os.environ.get(KILL):
        install(os.environ[KILL])
    from gtpo_lit.cli import main

    main()

"""A fault in this process: it kills itself at a call of a point."""

from __future__ import annotations

import importlib
import os
import signal
from typing import Any

from benchmarks.kills.points import POINTS


def install(text: str) -> None:
    """Patch a point, if it is this rank's turn.

    Args:
        text: `point;call;rank`: the name of a point, at which call of it the process dies, and on
            which rank (-1: any).
    """
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
        strikes = counts and calls == int(call)
        if strikes and point.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = plain(*arguments, **options)
        if strikes and point.when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, last, patched)

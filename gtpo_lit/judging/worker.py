"""The inside of a worker process: read a request, call a judge, write the outcome.

A request is 8 bytes of length and a pickle from the parent; an outcome is 8 bytes of length and
JSON, so that nothing a judge produces is ever unpickled.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any, BinaryIO

HEADER = 8
PREPARE = "prepare_judge"
"""A judge's module may have a function of this name; it is called before the clock runs."""
MEMORY = "memory"
"""The `failure` of a judge that ran out of memory."""


def main() -> None:
    """Serve requests until the parent closes the pipe."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a judge prints must not end up between the outcomes.
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    judges: dict[str, Callable[..., Any]] = {}
    while (request := _read(requests)) is not None:
        outcome = _serve(request, judges)
        body = json.dumps(outcome).encode()
        replies.write(len(body).to_bytes(HEADER, "big") + body)
        replies.flush()


def _read(stream: BinaryIO) -> dict[str, Any] | None:
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    body = stream.read(int.from_bytes(header, "big"))
    request: dict[str, Any] = pickle.loads(body)
    return request


def _serve(request: dict[str, Any], judges: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    path = request["judge"]
    try:
        if path not in judges:
            judges[path] = find_judge(path)
            getattr(sys.modules[path.partition(":")[0]], PREPARE, lambda: None)()
            return {}
        _bound(request["seconds"], request["memory_mb"])
        try:
            score = float(judges[path](**request["arguments"]))
        finally:
            _unbound()
        if not math.isfinite(score):
            raise ValueError(f"{path} returned {score}")
        return {"score": score}
    except MemoryError:
        return {"failure": MEMORY}
    except BaseException:  # a judge may even call sys.exit()
        return {"failure": traceback.format_exc()[-4000:]}


def find_judge(path: str) -> Callable[..., Any]:
    """The function at `"package.module:function"`.

    Raises:
        ValueError: if the module has no such function.
    """
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ValueError(f"module {module!r} has no function {name!r}")
    judge: Callable[..., Any] = found
    return judge


def _bound(seconds: float, memory_mb: int) -> None:
    # The parent kills at the limit. This timer is for a parent that is gone: the kernel then ends
    # the process, whatever Python is doing.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + 5)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = _address_space() + memory_mb * 2**20
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))


def _unbound() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _address_space() -> int:
    """Bytes of address space in use; 0 where the system does not tell (and bounds nothing)."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0

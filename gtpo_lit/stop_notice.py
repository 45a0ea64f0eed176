"""SIGTERM on one rank, known to all ranks at once and obeyed by each in time."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Literal

import torch.distributed as dist

PREEMPTED = 75
"""Exit code of a run that SIGTERM ended; EX_TEMPFAIL of sysexits.h, "try again later"."""

Decision = Literal["stop", "finish"]
_KEY = "gtpo_lit/sigterm"
_POLL = 0.2
_PATIENCE = 10.0


class StopNotice:
    """Hears SIGTERM, decides once for all ranks, and ends a process that cannot end itself.

    A rank may wait within a collective, where Python handles no signal, for one that has stopped.
    So a thread listens: to the system, which tells it of a signal even then, and to the store of
    the process group, where the first rank that got the signal leaves its decision. The process
    ends hard if it is still there ten seconds after it should have gone.

    Args:
        fits: whether the current RL step should be finished.
        grace_seconds: how long that may take.
    """

    def __init__(self, fits: Callable[[], bool], *, grace_seconds: float) -> None:
        self._fits = fits
        self._grace = grace_seconds
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._ears = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: tuple[Any, int] | None = None
        self._store = _store()
        self.decision: Decision | None = None
        """What becomes of the step; None while no rank got SIGTERM."""

    def watch(self, handler: Callable[[int, Any], None]) -> None:
        """Listen from now on; called in the main thread, where `handler` runs, too."""
        fd = signal.set_wakeup_fd(self._ears[1], warn_on_full_buffer=False)
        self._before = signal.signal(signal.SIGTERM, handler), fd
        threading.Thread(target=self._listen, daemon=True, name="gtpo-lit-sigterm").start()

    def close(self) -> None:
        """Stop listening and put back what was there before."""
        if self._before is not None and threading.current_thread() is threading.main_thread():
            handler, fd = self._before
            signal.signal(signal.SIGTERM, handler)
            signal.set_wakeup_fd(fd)
            self._before = None
        self._closed.set()

    def ask(self) -> Decision:
        """The decision of all ranks, made now if there is none."""
        with self._lock:
            if self.decision is None:
                mine: Decision = "finish" if self._fits() else "stop"
                self.decision = self._agree(mine)
                _keep_from_killing()
            return self.decision

    def let_others_see(self) -> None:
        """Wait until the other ranks have heard, so that none takes this one's end for a fault."""
        if self._store is not None:
            time.sleep(3 * _POLL)

    def _agree(self, mine: Decision) -> Decision:
        if self._store is None:
            return mine
        try:
            first = self._store.compare_set(_KEY, "", mine)
        except (RuntimeError, ValueError):  # the rank that keeps the store is gone
            return "stop"
        return "finish" if first == b"finish" else "stop"

    def _listen(self) -> None:
        limit: float | None = None
        while not self._closed.is_set():
            heard, _, _ = select.select([self._ears[0]], [], [], _POLL)
            if self._closed.is_set():  # while this waited; what comes now is no concern of it
                break
            signals = os.read(self._ears[0], 1024) if heard else b""
            if limit is not None and time.monotonic() > limit:
                _end_hard()
            if limit is None and (signal.SIGTERM in signals or self._told()):
                late = self._grace if self.ask() == "finish" else 0.0
                limit = time.monotonic() + late + _PATIENCE
                if signal.SIGTERM not in signals:
                    main = threading.main_thread().ident
                    assert main is not None
                    signal.pthread_kill(main, signal.SIGTERM)
        for ear in self._ears:
            os.close(ear)

    def _told(self) -> bool:
        if self._store is None:
            return False
        try:
            return bool(self._store.check([_KEY]))
        except (RuntimeError, ValueError):  # the rank that keeps the store is gone
            self._store = None
            return False


def _store() -> Any | None:
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return None
    store: Any = dist.distributed_c10d._get_default_store()
    # A connection of its own, so that a wait in the main thread does not keep this one.
    try:
        return store.clone()
    except (AttributeError, RuntimeError, NotImplementedError):
        return store


def _keep_from_killing() -> None:
    """Keep Lightning's observer from killing this process once a child has ended as it should."""
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            thread._child_processes = []  # type: ignore[attr-defined]


def _end_hard() -> None:
    print(
        f"gtpo-lit: SIGTERM: still here {_PATIENCE:g} s after the end; this process ends hard",
        file=sys.stderr,
        flush=True,
    )
    os._exit(PREEMPTED)

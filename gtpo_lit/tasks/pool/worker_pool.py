"""A pool of worker processes that judge answers, for any thread."""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gtpo_lit.tasks.pool.limits import Limits
from gtpo_lit.tasks.pool.verdict import Verdict
from gtpo_lit.tasks.pool.worker_process import WorkerDied, WorkerProcess

MOST_WORKERS = 4
"""Workers of the shared pool, where the machine has as many cores."""


class WorkerPool:
    """Processes that are started when first needed and replaced when one hangs or dies.

    One thread serves each process, so any number of threads may call `run` at once.
    """

    def __init__(self, workers: int) -> None:
        """Choose the size.

        Args:
            workers: number of processes.

        Raises:
            ValueError: if it is below 1.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.workers = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="reward-worker")
        self._idle: queue.LifoQueue[WorkerProcess | None] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(None)

    def run(
        self, judge: str, jobs: Sequence[Mapping[str, Any]], limits: Limits | None = None
    ) -> list[Verdict]:
        """Judge answers, each within its limits.

        Args:
            judge: import path of the function, ``"package.module:function"``.
            jobs: the keyword arguments of each call; they must pickle.
            limits: what one call may cost.

        Returns:
            One verdict for each job, in their order.

        Raises:
            RuntimeError: if the judge cannot be imported in a worker.
        """
        limits = limits or Limits()
        return list(self._threads.map(lambda job: self._run_one(judge, job, limits), jobs))

    def close(self) -> None:
        """End all processes; the pool cannot be used afterwards."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        for _ in range(self.workers):
            if (worker := self._idle.get()) is not None:
                worker.kill()

    def _run_one(self, judge: str, job: Mapping[str, Any], limits: Limits) -> Verdict:
        worker = self._idle.get()
        try:
            worker = self._ready(worker, judge)
            verdict = worker.judge(judge, job, limits)
            if verdict.status == "died":
                # Something else may have ended it, such as the system when memory is short.
                worker.kill()
                worker = self._ready(None, judge)
                verdict = worker.judge(judge, job, limits)
        except BaseException:
            if worker is not None:
                worker.kill()
            self._idle.put(None)
            raise
        if verdict.status in ("timeout", "died", "memory"):
            # After a memory error the heap may be full of what the judge left behind.
            worker.kill()
            worker = None
        self._idle.put(worker)
        return verdict

    def _ready(self, worker: WorkerProcess | None, judge: str) -> WorkerProcess:
        if worker is not None:
            try:
                worker.load(judge)
                return worker
            except WorkerDied:  # ended from outside between two answers
                worker.kill()
        worker = WorkerProcess()
        try:
            worker.load(judge)
        except WorkerDied as death:
            worker.kill()
            raise RuntimeError(f"a reward worker did not start: {death}") from None
        except BaseException:
            worker.kill()
            raise
        return worker


_shared: dict[tuple[int, int], WorkerPool] = {}
_lock = threading.Lock()


def shared_pool(workers: int | None = None) -> WorkerPool:
    """The pool of this process that all its rewards with as many workers share.

    Args:
        workers: number of processes; by default one a core, at most four.

    Raises:
        ValueError: if `workers` is below 1.
    """
    size = min(MOST_WORKERS, _cores()) if workers is None else workers
    with _lock:
        # After a fork the parent's pipes are not ours to use.
        for key in [key for key in _shared if key[0] != os.getpid()]:
            del _shared[key]
        if (os.getpid(), size) not in _shared:
            _shared[os.getpid(), size] = WorkerPool(size)
        return _shared[os.getpid(), size]


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


@atexit.register
def _close_shared() -> None:
    for key in [key for key in _shared if key[0] == os.getpid()]:
        _shared.pop(key).close()

"""The parent's side of one worker process."""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gtpo_lit.judging.worker import HEADER, MEMORY
from gtpo_lit.tasks.pool.limits import Limits
from gtpo_lit.tasks.pool.verdict import Verdict

START_SECONDS = 180.0
"""Time for a worker to start and import a judge; imports are slow on a busy disk."""
MAX_OUTCOME = 2**20
"""Bytes of the longest outcome; judges return a number or a traceback."""

# Neither `__main__` nor the current directory plays a part, so a script needs no main guard.
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from gtpo_lit.judging.worker import main; main()"
)


class WorkerDied(Exception):
    """The process is gone."""


class WorkerProcess:
    """One process, and the pipes to it. Used by one thread at a time."""

    def __init__(self) -> None:
        paths = [os.getcwd() if entry == "" else entry for entry in sys.path]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(paths)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Threads of a maths library would only fight over the cores with those of others.
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            # Ctrl-C is for the parent alone; and what a judge starts is killed with it.
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._loaded: set[str] = set()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def load(self, judge: str) -> None:
        """Import a judge, once.

        Raises:
            RuntimeError: if its module cannot be imported, or the process does not start.
        """
        if judge in self._loaded:
            return
        deadline = time.monotonic() + START_SECONDS
        try:
            outcome = self._exchange({"judge": judge}, deadline)
        except TimeoutError:
            raise RuntimeError(
                f"a reward worker did not import {judge!r} within {START_SECONDS:.0f} s"
            ) from None
        if failure := outcome.get("failure"):
            raise RuntimeError(f"a reward worker cannot import {judge!r}:\n{failure}")
        self._loaded.add(judge)

    def judge(self, judge: str, arguments: Mapping[str, Any], limits: Limits) -> Verdict:
        """Judge one answer. After "timeout" and "died" the worker is of no further use."""
        request = {
            "judge": judge,
            "arguments": dict(arguments),
            "seconds": limits.seconds,
            "memory_mb": limits.memory_mb,
        }
        try:
            outcome = self._exchange(request, time.monotonic() + limits.seconds)
        except TimeoutError:
            return Verdict("timeout", detail=f"over {limits.seconds} s")
        except WorkerDied as death:
            return Verdict("died", detail=str(death))
        if "score" in outcome:
            return Verdict("scored", float(outcome["score"]))
        failure = str(outcome.get("failure"))
        return Verdict("memory" if failure == MEMORY else "error", detail=failure)

    def kill(self) -> None:
        """End the process and all that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _exchange(self, request: dict[str, Any], deadline: float) -> dict[str, Any]:
        body = pickle.dumps(request)
        try:
            self._write(len(body).to_bytes(HEADER, "big") + body, deadline)
            length = int.from_bytes(self._read(HEADER, deadline), "big")
            if length > MAX_OUTCOME:
                raise WorkerDied(f"it sent {length} bytes")
            outcome = json.loads(self._read(length, deadline))
        except (OSError, EOFError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise WorkerDied(self._ending()) from error
        if not isinstance(outcome, dict):
            raise WorkerDied("it sent something else than an outcome")
        return outcome

    def _ending(self) -> str:
        try:
            return f"exit status {self._process.wait(timeout=1)}"
        except subprocess.TimeoutExpired:
            return "it closed its pipe"

    def _write(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            _wait(self._in, select.POLLOUT, deadline)
            view = view[os.write(self._in, view) :]

    def _read(self, length: int, deadline: float) -> bytes:
        data = b""
        while len(data) < length:
            _wait(self._out, select.POLLIN, deadline)
            part = os.read(self._out, length - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    # A poll at the deadline still takes what lies ready.
    left = max(0.0, deadline - time.monotonic())
    if not poll.poll(left * 1000):
        raise TimeoutError

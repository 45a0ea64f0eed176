"""The processes of one run, one a rank, and an agent that ends them all when one has died.

Most of a short run's time goes to imports. A parent that has them done forks its ranks, which then
find the environment that torchrun would set; `fresh` starts interpreters instead, where Lightning
makes the other ranks.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from benchmarks.kills.faults import install
from gtpo_lit.sampling.vllm_nccl import free_port

KILL = "GTPO_LIT_KILL"
ROOT = Path(__file__).parents[2]
_PATIENCE = 15.0
_PRELOADED = (
    "callbacks",
    "gtpo_lit.evaluation.report",
    "gtpo_lit.lightning_cli",
    "peft",
    "torch.distributed.checkpoint.state_dict",
    "torch.utils.tensorboard",
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen2.modeling_qwen2",
)
"""What takes long to import."""


def preload() -> None:
    """Import in this process what its forks need."""
    for module in ("gtpo_lit.cli", *_PRELOADED):
        importlib.import_module(module)


class Job:
    """A run that has begun.

    Args:
        arguments: of `gtpo-lit`.
        log: file that gets what all ranks print.
        ranks: how many processes.
        fault: for `faults.install`; none if empty.
        fresh: whether to start interpreters rather than to fork this one.
    """

    def __init__(
        self, arguments: Sequence[str], log: Path, *, ranks: int, fault: str, fresh: bool
    ) -> None:
        self.pids: list[int] = []
        self._codes: dict[int, int] = {}
        with log.open("ab") as file:
            if fresh:
                self.pids.append(_interpreter(arguments, file.fileno(), fault))
            else:
                port = free_port()
                for rank in range(ranks):
                    environment = _as_torchrun(rank, ranks, port) if ranks > 1 else {}
                    self.pids.append(_fork(arguments, file.fileno(), environment, fault))

    def wait(self, seconds: float) -> int | None:
        """The exit code of the rank that ended first in a bad way, 0 if none did.

        None if the run still goes on after `seconds`. When one rank has failed, the others are
        asked to end, and killed if they do not.
        """
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self._look()
            failed = next((code for code in self._codes.values() if code), 0)
            if failed:
                self._end_all()
                return failed
            if len(self._codes) == len(self.pids):
                return 0
            time.sleep(0.005)
        return None

    def kill(self, victims: Sequence[int]) -> None:
        """SIGKILL to some ranks, by their places in `pids`."""
        for rank in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[rank], signal.SIGKILL)

    def end(self) -> None:
        """SIGKILL to whatever the run has started."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        for pid in self.pids:
            if pid not in self._codes:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)

    def _look(self) -> None:
        for pid in self.pids:
            if pid not in self._codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self._codes[pid] = os.waitstatus_to_exitcode(status)

    def _end_all(self) -> None:
        for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, _PATIENCE)):
            for pid in self.pids:
                if pid not in self._codes:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
            limit = time.monotonic() + patience
            while len(self._codes) < len(self.pids) and time.monotonic() < limit:
                self._look()
                time.sleep(0.005)


def _interpreter(arguments: Sequence[str], output: int, fault: str) -> int:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.kills", *arguments],
        cwd=ROOT,
        env={**os.environ, KILL: fault},
        stdout=output,
        stderr=output,
        start_new_session=True,
    ).pid


def _fork(arguments: Sequence[str], output: int, environment: dict[str, str], fault: str) -> int:
    from gtpo_lit.cli import main

    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.setsid()
        os.chdir(ROOT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ.update(environment)
        sys.argv = ["gtpo-lit", *arguments]
        if fault:
            install(fault)
        main([*arguments])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        # Nothing that the parent has registered for its own end may run here.
        os._exit(code)


def _as_torchrun(rank: int, ranks: int, port: int) -> dict[str, str]:
    return {
        "TORCHELASTIC_RUN_ID": "kills",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "GROUP_RANK": "0",
    }

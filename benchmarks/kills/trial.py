"""One kill: a run that dies, as often as it takes to finish it, and what came of it."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml

from benchmarks.kills.__main__ import KILL
from gtpo_lit.consolidate import read_checkpoint
from gtpo_lit.run_folder import RunFolder

SETUPS: dict[str, tuple[str, ...]] = {
    "single": (),
    "ddp": ("--config=configs/strategy/ddp.yaml",),
    "fsdp2": ("--config=configs/strategy/fsdp2.yaml",),
    "lora": ("--config=configs/policy/lora.yaml",),
}
"""Command-line options on top of `CONFIG`, by name; one line adds a set-up."""

SET = "chains"
CONFIG = {
    "seed_everything": 0,
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 4,
        "check_val_every_n_epoch": 2,
        "accumulate_grad_batches": 1,
        "gradient_clip_val": 1.0,
        "callbacks": [
            {"class_path": "callbacks.PassAtK"},
            {"class_path": "callbacks.RunSummary", "init_args": {"curves": False}},
            {
                "class_path": "gtpo_lit.run_checkpoint.RunCheckpoint",
                "init_args": {"keep_last": 2, "best_of": f"val/{SET}/pass@1"},
            },
        ],
    },
    "model": {
        "policy": {"path": "embedded:chains"},
        "algorithm": {"class_path": "gtpo_lit.algorithms.GTPO"},
        "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
    },
    "data": {
        "problems": {"class_path": "gtpo_lit.tasks.ChainSource", "init_args": {"size": 24}},
        "validation": {
            "chains": {
                "class_path": "gtpo_lit.tasks.ChainSource",
                "init_args": {"split": "validation", "size": 2},
            }
        },
        "reward": {
            "accuracy": {
                "class_path": "gtpo_lit.tasks.ExactReward",
                "init_args": {"extract": "last_equals"},
            }
        },
        "group_size": 2,
        "problems_per_step": 2,
        "micro_batches": 2,
        "sampling": {"max_tokens": 8},
        "validation_samples": 2,
    },
}
SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one kill."""

    died: bool
    """Whether the fault struck at all."""
    fault: str
    """What differs from the whole run; empty if nothing does."""


class Trials:
    """Runs of one set-up below a folder.

    Args:
        folder: where the runs are kept.
        options: of the set-up.
    """

    def __init__(self, folder: Path, options: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.options = options
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(CONFIG))
        self.seconds = 0.0

    def whole(self) -> None:
        """The run that nothing disturbs; its time is kept."""
        began = time.monotonic()
        code = self._run("whole").wait(SECONDS)
        self.seconds = time.monotonic() - began
        if code != 0:
            raise RuntimeError(f"the undisturbed run ended with code {code}: see {self.folder}")

    def at_point(self, name: str, point: str, *, call: int = 1, rank: int = -1) -> Outcome:
        """Kill at a call of a fault point, on one rank or on whichever comes there first."""
        process = self._run(name, fault=f"{point};{call};{rank}")
        code = self._wait(process)
        return self._resume(name, died=code != 0)

    def at_moment(self, name: str, moments: random.Random) -> Outcome:
        """Kill the main process at a random moment of its time."""
        process = self._run(name)
        try:
            code = process.wait(moments.uniform(0.0, self.seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            code = self._wait(process)
        return self._resume(name, died=code != 0)

    def _resume(self, name: str, *, died: bool) -> Outcome:
        code = self._wait(self._run(name, "--ckpt_path=last"))
        if code != 0:
            return Outcome(died=died, fault=f"the resumed run ended with code {code}")
        return Outcome(died=died, fault=self._difference(name))

    def _difference(self, name: str) -> str:
        # A run that died before its first checkpoint starts again, in a version of its own.
        mine = max((self.folder / "runs" / name).iterdir(), key=lambda path: path.stat().st_ctime)
        theirs = self.folder / "runs" / "whole" / "version_0"
        if (mine / "metrics.csv").read_bytes() != (theirs / "metrics.csv").read_bytes():
            return "metrics.csv differs"
        one, two = (RunFolder(path=path) for path in (mine, theirs))
        # The checkpoint that a run was resumed from stays, too.
        if not {*two.checkpoint_steps()} <= {*one.checkpoint_steps()}:
            return f"checkpoints {one.checkpoint_steps()}, not {two.checkpoint_steps()}"
        step = two.checkpoint_steps()[-1]
        first, second = (read_checkpoint(run.checkpoint(step)) for run in (one, two))
        for weight, value in second["state_dict"].items():
            if not torch.equal(first["state_dict"][weight], value):
                return f"{weight} differs"
        if not (mine / "summary.json").is_file():
            return "no summary"
        return ""

    def _run(self, name: str, *more: str, fault: str = "") -> subprocess.Popen[bytes]:
        arguments = [
            f"--config={self.config}", f"--run.root={self.folder / 'runs'}", f"--run.name={name}",
            *self.options, *more,
        ]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "benchmarks.kills", "fit", *arguments],
                cwd=Path(__file__).parents[2],
                env={**os.environ, KILL: fault},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        """The exit code; whatever the run has started is gone afterwards."""
        try:
            return process.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

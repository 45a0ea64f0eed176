"""One kill: a run that dies, is resumed, and what came of it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from benchmarks.kills.job import Job, preload
from benchmarks.kills.setups import CONFIG, Setup
from gtpo_lit.consolidate import read_checkpoint
from gtpo_lit.run_folder import RunFolder

SECONDS = 300.0
_DRAWS = 5


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
        setup: what is run.
        fresh: whether every rank is an interpreter of its own from the start.
    """

    def __init__(self, folder: Path, setup: Setup, *, fresh: bool = False) -> None:
        self.folder = folder
        self.setup = setup
        self.fresh = fresh
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(CONFIG))
        self.seconds = 0.0
        if not fresh:
            preload()

    def whole(self) -> None:
        """The run that nothing disturbs; its time is kept.

        Raises:
            RuntimeError: it fails.
        """
        began = time.monotonic()
        code = self._wait(self._run("whole"))
        self.seconds = time.monotonic() - began
        if code != 0:
            raise RuntimeError(f"the undisturbed run ended with code {code}: see {self.folder}")

    def at_point(self, name: str, point: str, *, call: int = 1, rank: int = -1) -> Outcome:
        """Kill at a call of a fault point, on one rank or on whichever comes there first."""
        code = self._wait(self._run(name, fault=f"{point};{call};{rank}"))
        return self._resume(name, died=code != 0)

    def at_moment(self, name: str, moments: random.Random) -> Outcome:
        """Kill at a random moment: one rank, or all of them at once.

        A run that is done before its moment is run again under another name.
        """
        outcome = Outcome(died=False, fault="")
        for draw in range(_DRAWS):
            victims = moments.choice([*([rank] for rank in self._ranks()), [*self._ranks()]])
            job = self._run(f"{name}-{draw}")
            code = job.wait(moments.uniform(0.0, self.seconds))
            if code is None:
                job.kill(victims)
                code = self._wait(job)
                self._kill_again(f"{name}-{draw}", moments)
            outcome = self._resume(f"{name}-{draw}", died=code != 0)
            if outcome.died or outcome.fault:
                break
        return outcome

    def _kill_again(self, name: str, moments: random.Random) -> None:
        """Let every other run die in its resumption, too."""
        if moments.random() < 0.5:
            job = self._run(name, "--ckpt_path=last")
            if job.wait(moments.uniform(0.0, self.seconds)) is None:
                job.kill([*self._ranks()])
            self._wait(job)

    def _ranks(self) -> range:
        return range(1 if self.fresh else self.setup.ranks)

    def _resume(self, name: str, *, died: bool) -> Outcome:
        code = self._wait(self._run(name, "--ckpt_path=last"))
        if code != 0:
            return Outcome(died=died, fault=f"the resumed run ended with code {code}")
        return Outcome(died=died, fault=self._difference(name))

    def _difference(self, name: str) -> str:
        # A run that died before its first checkpoint starts again, in a version of its own.
        ours = max((self.folder / "runs" / name).iterdir(), key=lambda path: path.stat().st_ctime)
        whole = self.folder / "runs" / "whole" / "version_0"
        if (ours / "metrics.csv").read_bytes() != (whole / "metrics.csv").read_bytes():
            return "metrics.csv differs"
        one, two = (RunFolder(path=path) for path in (ours, whole))
        # The checkpoint that a run was resumed from stays, too.
        if not {*two.checkpoint_steps()} <= {*one.checkpoint_steps()}:
            return f"checkpoints {one.checkpoint_steps()}, not {two.checkpoint_steps()}"
        left = [path.name for path in (ours / "checkpoints").iterdir() if "partial" in path.name]
        if left:
            return f"parts are left: {left}"
        step = two.checkpoint_steps()[-1]
        mine, theirs = (read_checkpoint(run.checkpoint(step)) for run in (one, two))
        differing = difference(mine, theirs)
        if differing:
            return f"the last checkpoint differs in {differing}"
        if not (ours / "summary.json").is_file():
            return "no summary"
        return ""

    def _run(self, name: str, *more: str, fault: str = "") -> Job:
        arguments = [
            "fit", f"--config={self.config}", f"--run.root={self.folder / 'runs'}",
            f"--run.name={name}", *self.setup.options, *more,
        ]  # fmt: skip
        return Job(
            arguments, self.folder / f"{name}.log",
            ranks=self.setup.ranks, fault=fault, fresh=self.fresh,
        )  # fmt: skip

    def _wait(self, job: Job) -> int:
        """The exit code; whatever the run has started is gone afterwards."""
        try:
            code = job.wait(SECONDS)
            return 124 if code is None else code
        finally:
            job.end()


def difference(one: Any, two: Any, name: str = "") -> str:
    """Where two values made of mappings, sequences, tensors and plain values differ first.

    >>> difference({"a": [1, torch.tensor([2.0])]}, {"a": [1, torch.tensor([3.0])]})
    'a.1'
    """
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return "" if one.dtype == two.dtype and torch.equal(one, two) else name
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        if {*one} != {*two}:
            return name or "its keys"
        pairs: Iterable[tuple[Any, Any, Any]] = ((key, one[key], two[key]) for key in one)
    elif isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)):
        if len(one) != len(two):
            return name
        pairs = ((place, *both) for place, both in enumerate(zip(one, two, strict=True)))
    else:
        return "" if one == two or (one != one and two != two) else name
    for key, first, second in pairs:
        found = difference(first, second, f"{name}.{key}" if name else str(key))
        if found:
            return found
    return ""

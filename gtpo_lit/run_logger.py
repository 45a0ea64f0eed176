"""Loggers of the run folder: one row an RL step, and TensorBoard beside it."""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from lightning.fabric.utilities.rank_zero import rank_zero_only
from lightning.pytorch.loggers import Logger

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

from gtpo_lit.run_folder import RunFolder, RunFolderError, read_table, write_table

# What Lightning adds to every call; the column `step` says it better.
NOISE = ("epoch", "step")
TIMING = ("time/", "memory/")


class RunLogger(Logger):
    """Writes `metrics.csv` and `timing.csv`, whole and in order, once for each call.

    Row k holds everything logged about RL step k; row 0 is the validation before training. What
    depends on the machine (`time/...`, `memory/...`) goes to `timing.csv`, so that equal runs give
    equal bytes in `metrics.csv`.

    Args:
        root: folder of all runs.
        name: of the run; versions are counted under it.
        resume_from: the checkpoint that the run goes on from.
    """

    def __init__(
        self, root: str = "runs", name: str = "run", resume_from: str | None = None
    ) -> None:
        super().__init__()
        self._root = Path(root)
        self._name = name
        self._resume_from = resume_from
        self._folder: RunFolder | None = None
        self._tables: dict[str, _Table] = {}
        self._current_step = 0

    @property
    def folder(self) -> RunFolder:
        """The run's folder, claimed at first use; only rank 0 may ask."""
        if self._folder is None:
            if self._resume_from is None:
                self._folder = RunFolder.claim(self._root, self._name)
            else:
                self._folder = RunFolder.resume(self._root, self._name, Path(self._resume_from))
        return self._folder

    def abandon(self) -> None:
        """Give the folder back if nothing has been written into it."""
        folder = self._folder
        if folder is not None:
            for path in (folder.path, folder.path.parent, self._root):
                if any(path.iterdir()):
                    return
                path.rmdir()

    @property
    def name(self) -> str:
        """Of the run."""
        return self._name

    @property
    def version(self) -> int:
        """N of version_N; 0 on other ranks, which write nothing."""
        return self.folder.version if _is_rank_zero() else 0

    @property
    def root_dir(self) -> str:
        """The folder of all versions."""
        return str(self._root / self._name)

    @property
    def save_dir(self) -> str:
        """The run's folder: Lightning takes it for `trainer.log_dir`."""
        return self.log_dir

    @property
    def log_dir(self) -> str:
        """The run's folder."""
        return str(self.folder.path) if _is_rank_zero() else self.root_dir

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """Nothing: the run's config.yaml says it."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write metrics of the RL step that Lightning's `epoch` among them names.

        Metrics that name no epoch belong to the step that was logged last.
        """
        row = int(metrics["epoch"]) + 1 if "epoch" in metrics else self._current_step
        self.log_step(row, metrics)

    @rank_zero_only
    def log_step(self, rl_step: int, metrics: Mapping[str, float]) -> None:
        """Add metrics to the row of `rl_step`; it is on the disk when this returns."""
        self._current_step = rl_step
        kept = {name: float(value) for name, value in metrics.items() if name not in NOISE}
        timing = {name: value for name, value in kept.items() if name.startswith(TIMING)}
        for file, values in (
            ("timing.csv", timing),
            ("metrics.csv", {name: value for name, value in kept.items() if name not in timing}),
        ):
            if values:
                self._table(file).add(rl_step, values)

    def _table(self, file: str) -> _Table:
        if file not in self._tables:
            self._tables[file] = _Table(self.folder.path / file)
        return self._tables[file]


def _is_rank_zero() -> bool:
    return getattr(rank_zero_only, "rank", 0) == 0


class _Table:
    """A table of RL steps that grows by rows and columns; new columns keep the old ones' order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header, self.rows = ["step"], dict[int, dict[str, str]]()
        try:
            self.header, rows = read_table(path)
            self.rows = {int(row["step"]): row for row in rows}
        except RunFolderError:
            pass

    def add(self, step: int, values: Mapping[str, float]) -> None:
        row = self.rows.setdefault(step, {"step": str(step)})
        # Lightning's own metrics are float32; more digits would only look more precise.
        new = {n: str(np.float32(value)) for n, value in values.items() if not math.isnan(value)}
        if all(row.get(name) == value for name, value in new.items()):
            return
        row |= new
        names = {*self.header[1:], *new}
        self.header = ["step", *sorted(names)]
        write_table(self.path, self.header, [self.rows[key] for key in sorted(self.rows)])


class RunTensorBoardLogger(Logger):
    """TensorBoard files in the folder `tensorboard` of the run, against RL steps.

    Nothing is written before the first number, so that a run that is refused leaves no folder.

    Args:
        run: the logger whose folder it shares.
    """

    def __init__(self, run: RunLogger) -> None:
        super().__init__()
        self._run = run
        self._writer: SummaryWriter | None = None

    @property
    def name(self) -> str:
        """Of the run."""
        return self._run.name

    @property
    def version(self) -> int:
        """Of the run."""
        return self._run.version

    @property
    def writer(self) -> SummaryWriter:
        """TensorBoard's own writer, for what is not a number."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(Path(self._run.log_dir) / "tensorboard"))
        return self._writer

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | Namespace, *_: Any, **__: Any) -> None:
        """Nothing: the run's config.yaml says it."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log numbers against the RL step, not the optimiser step."""
        step = int(metrics["epoch"]) + 1 if "epoch" in metrics else step
        for name, value in metrics.items():
            if name not in NOISE:
                self.writer.add_scalar(name, value, step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Flush and close."""
        if self._writer is not None:
            self._writer.close()

"""The logger that fills a run folder, one row for each RL step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning_utilities.core.rank_zero import rank_zero_only
from torch import Tensor

from gtpo_lit.metrics_csv import MetricsFile
from gtpo_lit.run_claim import abandon, claim
from gtpo_lit.run_folder import RunFolder

# Columns that count something else than RL steps.
_NOISE = frozenset({"epoch", "step", "global_step", "trainer/global_step"})
# What depends on the machine and the moment, and so cannot be compared digit by digit.
_TIMING = ("time/", "memory/", "DeviceStatsMonitor")


class RunLogger(CSVLogger):
    """Writes `metrics.csv` and `timing.csv` of a run folder.

    Row k holds what is known after RL step k (Lightning epoch k - 1), row 0 the validation before
    training. All metrics of one step are merged into its row, and each is on disk when
    `log_metrics` returns. The folder is claimed by rank zero at first use; the other ranks know it
    once `RunCheckpoint` has told them.

    Being a `CSVLogger` makes Lightning use the run folder as `trainer.log_dir` (where `config.yaml`
    goes) and for checkpoints.
    """

    def __init__(
        self,
        root: str = "runs",
        name: str = "run",
        version: int | None = None,
        ckpt_path: str | None = None,
    ) -> None:
        """Touch nothing yet.

        Args:
            root: folder of all runs.
            name: name of this run.
            version: number of the version to create; the next free one if None.
            ckpt_path: checkpoint that `fit` resumes from, which decides whether the run goes on
                in its old folder (see `gtpo_lit.run_claim.claim`). Set it, or the attribute of
                that name, to what `fit` gets.
        """
        super().__init__(save_dir=root, name=name, version=version)
        self.ckpt_path = ckpt_path
        self.rl_step = 1
        """Row of metrics that come without an epoch, as from Lightning's own monitors."""
        self.pinned_step: int | None = None
        """Row of all metrics, if set: `validate` and `test` describe one checkpoint."""
        self._folder: RunFolder | None = None
        self._files: tuple[MetricsFile, MetricsFile] | None = None

    @property
    def folder(self) -> RunFolder:
        """The run folder; claimed if this is rank zero and nobody asked before."""
        if self._folder is None:
            assert _on_rank_zero(), "only rank zero claims a run folder"
            version = self._version if isinstance(self._version, int) else None
            self._folder = claim(self._root_dir, self._name, self.ckpt_path, version=version)
        return self._folder

    def abandon(self) -> None:
        """Give the folder back if nothing has been written into it."""
        if self._folder is not None and _on_rank_zero():
            abandon(self._folder)

    def adopt(self, folder: RunFolder) -> None:
        """Learn on another rank which folder rank zero has claimed."""
        self._folder = folder

    @property
    def _known(self) -> RunFolder | None:
        return self.folder if _on_rank_zero() else self._folder

    @property
    def save_dir(self) -> str:
        """The root of all runs."""
        return str(self._known.path.parent.parent) if self._known else self._root_dir

    @property
    def name(self) -> str:
        """The run's name."""
        return self._known.path.parent.name if self._known else self._name

    @property
    def version(self) -> str:
        """`version_N`; a placeholder on other ranks until they are told."""
        return self._known.path.name if self._known else "unclaimed"

    @property
    def log_dir(self) -> str:
        """The run folder."""
        return os.path.join(self.save_dir, self.name, self.version)

    @property
    def experiment(self) -> RunFolder | None:
        """The run folder on rank zero. Lightning reads this to have a logger start."""
        return self._known

    def row_of(self, metrics: Mapping[str, Any]) -> int:
        """The RL step that a call of `log_metrics` belongs to."""
        if self.pinned_step is not None:
            return self.pinned_step
        return int(metrics["epoch"]) + 1 if "epoch" in metrics else self.rl_step

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Merge metrics into the row that their "epoch" names; `step` is unused."""
        self.log_row(self.row_of(metrics), metrics)

    @rank_zero_only
    def log_row(self, rl_step: int, metrics: Mapping[str, Any]) -> None:
        """Merge metrics into the row of an RL step, 0 being before training."""
        if self._files is None:
            self._files = MetricsFile(self.folder.metrics), MetricsFile(self.folder.timing)
        timing = {name: value for name, value in metrics.items() if name.startswith(_TIMING)}
        drop = _NOISE | timing.keys()
        others = {name: value for name, value in metrics.items() if name not in drop}
        self._files[0].update(rl_step, others)
        self._files[1].update(rl_step, timing)

    def has_row(self, rl_step: int) -> bool:
        """Whether `metrics.csv` has a row for this RL step; asked on rank zero."""
        return self._files is not None and rl_step in self._files[0].rows

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: `config.yaml` holds every option."""

    @rank_zero_only
    def save(self) -> None:
        """Nothing to do: every row is on disk already."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Nothing to do: every row is on disk already."""


def _on_rank_zero() -> bool:
    # Lightning keeps the rank on the decorator, from the launcher's environment on.
    return getattr(rank_zero_only, "rank", 0) == 0


def find_run_logger(trainer: Trainer) -> RunLogger | None:
    """The trainer's `RunLogger`, None if it has none."""
    found = (logger for logger in trainer.loggers if isinstance(logger, RunLogger))
    return next(found, None)


def log_row(trainer: Trainer, rl_step: int, metrics: Mapping[str, float]) -> None:
    """Give metrics to every logger at an RL step, past Lightning's own bookkeeping."""
    for logger in trainer.loggers:
        if hasattr(logger, "log_row"):
            logger.log_row(rl_step, metrics)
        else:
            logger.log_metrics(dict(metrics), step=rl_step)


def log_histogram(trainer: Trainer, rl_step: int, name: str, values: Tensor) -> None:
    """Give [N] numbers to every logger that takes histograms, as those in `gtpo_lit.loggers`."""
    for logger in trainer.loggers:
        if hasattr(logger, "log_histogram"):
            logger.log_histogram(rl_step, name, values)


def log_table(
    trainer: Trainer,
    rl_step: int,
    name: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Give a table to every logger of `gtpo_lit.loggers`, all of which take tables."""
    trackers: Sequence[Any] = trainer.loggers
    for logger in trackers:
        # Lightning's own Weights & Biases logger has a method of this name with other arguments.
        if hasattr(logger, "follow") and hasattr(logger, "log_table"):
            logger.log_table(rl_step, name, columns, rows)


def without_noise(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics without Lightning's own counters.

    >>> without_noise({"train/loss": 0.5, "epoch": 3})
    {'train/loss': 0.5}
    """
    return {name: value for name, value in metrics.items() if name not in _NOISE}

"""TensorBoard in the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger
from lightning_utilities.core.rank_zero import rank_zero_only
from torch import Tensor

from gtpo_lit.loggers.follower import Follower, markdown
from gtpo_lit.run_logger import RunLogger, without_noise


class RunTensorBoardLogger(Follower, TensorBoardLogger):
    """The same metrics as TensorBoard events, in `tensorboard/` of the run folder, by RL step.

    Takes histograms, and samples as text. On by default where TensorBoard is installed.
    """

    def __init__(self, run_logger: RunLogger | None = None) -> None:
        """Follow `run_logger`, which has to be listed before this one; see `Follower.follow`."""
        root = "runs" if run_logger is None else run_logger._root_dir
        super().__init__(save_dir=root, default_hp_metric=False)
        self.run_logger = run_logger

    @staticmethod
    def installed() -> bool:
        """Whether this environment can write events; nothing is imported to find out."""
        return any(find_spec(name) for name in ("tensorboard", "tensorboardX"))

    @property
    def name(self) -> str:
        """The run's name."""
        return self._followed.name

    @property
    def version(self) -> str:
        """`version_N`."""
        return self._followed.version

    @property
    def log_dir(self) -> str:
        """Where the event files go."""
        folder = Path(self._followed.log_dir) / "tensorboard"
        known = self._followed._folder
        if known is not None and known.in_place:
            # Hides what was logged after the checkpoint by the process that was stopped.
            self._kwargs["purge_step"] = known.start_step + 1
        return str(folder)

    @property
    def _followed(self) -> RunLogger:
        if self.run_logger is None:
            raise ValueError(
                "RunTensorBoardLogger writes into a run folder: list a RunLogger first"
            )
        return self.run_logger

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Add the metrics at the RL step that their "epoch" names; `step` is unused."""
        self.log_row(self.row_of(metrics), metrics)

    @rank_zero_only
    def log_row(self, rl_step: int, metrics: Mapping[str, Any]) -> None:
        """Add metrics at an RL step, 0 being before training."""
        super().log_metrics(without_noise(metrics), step=rl_step)

    @rank_zero_only
    def log_histogram(self, rl_step: int, name: str, values: Tensor) -> None:
        """Add the distribution of [N] numbers at an RL step."""
        self.experiment.add_histogram(name, values, rl_step)

    @rank_zero_only
    def log_table(
        self, rl_step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add a table as text at an RL step."""
        self.experiment.add_text(name, markdown(columns, rows), rl_step)

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: `config.yaml` holds every option."""

    @rank_zero_only
    def save(self) -> None:
        """Push what was logged to disk."""
        self.experiment.flush()

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Close the event file."""
        if self._experiment is not None:
            self.experiment.close()

"""Weights & Biases beside the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from lightning.pytorch.loggers import WandbLogger
from lightning_utilities.core.rank_zero import rank_zero_only
from torch import Tensor

from gtpo_lit.loggers.follower import Follower, numbers


class RunWandbLogger(Follower, WandbLogger):
    """The run's metrics in Weights & Biases, by RL step, with histograms and sample tables.

    Its `trainer/global_step` counts RL steps. Files go to `wandb/` of the run folder, and a run
    that goes on in its folder goes on there, too: the id is in `wandb.id`. Steps after the
    checkpoint that the stopped process had logged already are then there twice, with equal values.
    """

    def __init__(
        self,
        project: str = "gtpo_lit",
        entity: str | None = None,
        name: str | None = None,
        group: str | None = None,
        tags: list[str] | None = None,
        offline: bool = False,
    ) -> None:
        """Reach nobody yet.

        Args:
            project: to log to.
            entity: team or user; that of the login if None.
            name: of this run; `<name>/version_N` of its folder if None.
            group: what runs are shown together by, such as the seeds of one setting.
            tags: of the run.
            offline: keep everything on this machine; `wandb sync` sends it later.

        Raises:
            ModuleNotFoundError: if wandb is not installed.
        """
        if find_spec("wandb") is None:
            raise ModuleNotFoundError(
                "trainer.logger: RunWandbLogger needs wandb: pip install 'gtpo-lit[logging]'"
            )
        options: dict[str, Any] = {"entity": entity, "group": group, "tags": tags}
        super().__init__(name=name, project=project, offline=offline, **options)

    @property
    def experiment(self) -> Any:
        """The run of `wandb`, begun at first use on rank zero."""
        folder = self.run_folder if self._experiment is None else None
        if folder is not None:
            name = self._wandb_init["name"] or "/".join(folder.path.parts[-2:])
            known = self.remembered("wandb")
            self._wandb_init |= {"dir": str(folder.path), "name": name, "id": known}
        found = WandbLogger.experiment.fget(self)  # type: ignore[attr-defined]  # a property
        if folder is not None:
            self.remember("wandb", str(found.id))
        return found

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Add the metrics at the RL step that their "epoch" names; `step` is unused."""
        self.log_row(self.row_of(metrics), metrics)

    @rank_zero_only
    def log_row(self, rl_step: int, metrics: Mapping[str, Any]) -> None:
        """Add metrics at an RL step, 0 being before training."""
        super().log_metrics(numbers(metrics), step=rl_step)

    @rank_zero_only
    def log_histogram(self, rl_step: int, name: str, values: Tensor) -> None:
        """Add the distribution of [N] numbers at an RL step."""
        import wandb

        self.experiment.log({name: wandb.Histogram(values.numpy()), "trainer/global_step": rl_step})

    @rank_zero_only
    def log_table(  # type: ignore[override]  # one signature for all trackers
        self, rl_step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add a table at an RL step."""
        import wandb

        table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
        self.experiment.log({name: table, "trainer/global_step": rl_step})

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: `config.yaml` holds every option."""

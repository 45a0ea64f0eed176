"""MLflow beside the run folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from lightning.pytorch.loggers import MLFlowLogger
from lightning_utilities.core.rank_zero import rank_zero_only

from gtpo_lit.loggers.follower import Follower, markdown, numbers


class RunMLFlowLogger(Follower, MLFlowLogger):
    """The run's metrics in MLflow, by RL step, with sample tables as Markdown artifacts.

    MLflow takes no `@` in names: `val/<set>/pass@8` is `val/<set>/pass_at_8` there. It has no
    histograms. A run that goes on in its folder goes on there, too: the id is in `mlflow.id`.
    """

    def __init__(
        self,
        experiment_name: str = "gtpo_lit",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: dict[str, str] | None = None,
    ) -> None:
        """Reach nobody yet.

        Args:
            experiment_name: to log to; made if there is none.
            run_name: of this run; `<name>/version_N` of its folder if None.
            tracking_uri: of the server or store. If None, `MLFLOW_TRACKING_URI` of the environment,
                and without that the file `mlflow.db` in the working folder.
            tags: of the run.

        Raises:
            ModuleNotFoundError: if mlflow is not installed.
        """
        if find_spec("mlflow") is None:
            raise ModuleNotFoundError(
                "trainer.logger: RunMLFlowLogger needs mlflow: pip install 'gtpo-lit[logging]'"
            )
        uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or "sqlite:///mlflow.db"
        super().__init__(experiment_name, run_name=run_name, tracking_uri=uri, tags=tags)

    @property
    def experiment(self) -> Any:
        """The client of `mlflow`, its run begun at first use on rank zero."""
        folder = None if self._initialized else self.run_folder
        if folder is not None:
            self._run_id = self.remembered("mlflow")
            self._run_name = self._run_name or "/".join(folder.path.parts[-2:])
        found = MLFlowLogger.experiment.fget(self)  # type: ignore[attr-defined]  # a property
        if folder is not None:
            self.remember("mlflow", str(self._run_id))
        return found

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Add the metrics at the RL step that their "epoch" names; `step` is unused."""
        self.log_row(self.row_of(metrics), metrics)

    @rank_zero_only
    def log_row(self, rl_step: int, metrics: Mapping[str, Any]) -> None:
        """Add metrics at an RL step, 0 being before training."""
        renamed = {name.replace("@", "_at_"): value for name, value in numbers(metrics).items()}
        if renamed:
            super().log_metrics(renamed, step=rl_step)

    @rank_zero_only
    def log_table(
        self, rl_step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Add a table as `<name>/step=NNNN.md` to the run's artifacts."""
        client = self.experiment
        client.log_text(self._run_id, markdown(columns, rows), f"{name}/step={rl_step:04d}.md")

    @rank_zero_only
    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: `config.yaml` holds every option."""

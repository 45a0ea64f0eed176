"""Unbiased pass@k on the validation sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.problem_counts import ProblemCounts, pass_metrics
from gtpo_lit.run_logger import RunLogger
from gtpo_lit.types import Graded


class PassAtK(Callback):
    """Logs `val/<set>/pass@k`, mean reward, mean length and the truncated fraction.

    pass@k is the unbiased estimate from all n samples of a problem, averaged over problems; values
    of k above n are left out. The validation before training, which Lightning runs as its sanity
    check, becomes row 0 of the run's table and `before` in the summary; both survive a resume.

    Attributes:
        before: metrics by name of the validation before training.
        latest: metrics by name of the newest validation.
        latest_step: the RL step of the newest validation.

    Args:
        k: which k; powers of two up to 1024 if not given.
    """

    def __init__(self, k: list[int] | None = None) -> None:
        self.k = sorted(k) if k else [2**power for power in range(11)]
        if self.k[0] < 1:
            raise ValueError(f"PassAtK.k must be at least 1, got {self.k[0]}")
        self.before: dict[str, float] = {}
        self.latest: dict[str, float] = {}
        self.latest_step = 0
        self._counts: dict[str, ProblemCounts] = {}
        self._resumed = False

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin anew."""
        names = cast(Any, trainer).datamodule.validation_names
        self._counts = {name: ProblemCounts().to(pl_module.device) for name in names}

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Sequence[Graded],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count the batch's problems."""
        names = cast(Any, trainer).datamodule.validation_names
        self._counts[names[dataloader_idx]].update(batch)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compute over all ranks and log."""
        values = {
            f"val/{name}/{metric}": value
            for name, counts in self._counts.items()
            for metric, value in pass_metrics(counts.compute(), self.k).items()
        }
        if trainer.sanity_checking:
            if self._resumed:
                return
            self.latest = values
            self.before, self.latest_step = values, 0
            # Lightning discards what is logged here, so it goes to the table directly.
            for logger in trainer.loggers:
                if isinstance(logger, RunLogger):
                    logger.log_step(0, values)
            return
        self.latest, self.latest_step = values, trainer.current_epoch + 1
        pl_module.log_dict(values, add_dataloader_idx=False)

    on_test_epoch_start = on_validation_epoch_start
    on_test_batch_end = on_validation_batch_end
    on_test_epoch_end = on_validation_epoch_end

    def state_dict(self) -> dict[str, Any]:
        """What the summary needs after a resume."""
        return {"before": self.before, "latest": self.latest, "latest_step": self.latest_step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up `before` and `latest`."""
        self._resumed = True
        self.before = state_dict["before"]
        self.latest = state_dict["latest"]
        self.latest_step = state_dict["latest_step"]

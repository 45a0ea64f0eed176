"""A callback that reads the rollouts of a whole RL step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from lightning.pytorch import Callback, LightningModule, Trainer

from gtpo_lit.types import Rollouts


class StepCallback(Callback):
    """Logs numbers about each RL step's rollouts; a subclass overrides `measure`."""

    def measure(self, rollouts: Rollouts) -> Mapping[str, float]:
        """Metrics by name; those that cannot be told (an empty side) are left out."""
        raise NotImplementedError

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step. Every rank holds the rollouts of all ranks, so nothing is reduced."""
        rollouts = cast("Rollouts", cast(Any, trainer).datamodule.rollouts)
        for name, value in self.measure(rollouts).items():
            pl_module.log(name, value, on_step=False, on_epoch=True)

"""What the monitors of a training step share: reading its rollouts and logging numbers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from lightning.pytorch import LightningModule, Trainer

from gtpo_lit.types import Rollouts


def step_rollouts(trainer: Trainer, wanted_by: str) -> Rollouts:
    """All ranks' rollouts of the current RL step.

    Raises:
        ValueError: if the datamodule keeps none.
    """
    rollouts = getattr(getattr(trainer, "datamodule", None), "rollouts", None)
    if not isinstance(rollouts, Rollouts):
        raise ValueError(
            f"{wanted_by} reads trainer.datamodule.rollouts, which is {type(rollouts).__name__}; "
            "it needs a RolloutDataModule"
        )
    return rollouts


def log_step(pl_module: LightningModule, values: Mapping[str, float]) -> None:
    """Log numbers that are the same on all ranks, in double precision, from an epoch-end hook."""
    for name, value in values.items():
        tensor = torch.tensor(value, dtype=torch.float64)
        pl_module.log(name, tensor, on_step=False, on_epoch=True, rank_zero_only=False)

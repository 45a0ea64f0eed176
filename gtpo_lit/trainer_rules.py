"""What a trainer must be like for one epoch to be one RL step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TRAINER_DEFAULTS: dict[str, Any] = {
    # The loader hands out this rank's share already.
    "use_distributed_sampler": False,
    # The whole validation once before training: the "before" of every comparison.
    "num_sanity_val_steps": -1,
    "enable_model_summary": False,
    "log_every_n_steps": 1,
    # Samplers may keep tensors for training that inference mode would spoil.
    "inference_mode": False,
    "max_epochs": 1,
}

# Option -> the values that leave RL steps whole, and what to do instead of any other.
ALLOWED: dict[str, tuple[tuple[Any, ...], str]] = {
    "use_distributed_sampler": ((False,), "each rank's loader yields its own share already"),
    "limit_train_batches": ((None, 1.0), "set data.problems_per_step"),
    "overfit_batches": ((0.0, 0), "give data.problems fewer problems"),
    "val_check_interval": ((None, 1.0), "set trainer.check_val_every_n_epoch, in RL steps"),
    "reload_dataloaders_every_n_epochs": ((0,), "rollouts are fresh in every epoch already"),
    "max_steps": ((-1,), "set trainer.max_epochs, the number of RL steps"),
    "max_time": ((None,), "use lightning.pytorch.callbacks.Timer with interval: epoch"),
    "fast_dev_run": ((False, 0), "set trainer.max_epochs to 1"),
    "barebones": ((False,), "an RL step needs its callbacks and metrics"),
}


def refuse_broken_steps(trainer: Mapping[str, Any]) -> None:
    """Refuse trainer options under which an epoch is not one whole RL step.

    Args:
        trainer: the options of the trainer by name.

    Raises:
        ValueError: naming option, value and what to do instead.
    """
    for name, (allowed, advice) in ALLOWED.items():
        value = trainer.get(name, allowed[0])
        # 1 and 1.0 differ: one batch, and all of them.
        if not any(type(value) is type(good) and value == good for good in allowed):
            raise ValueError(
                f"trainer.{name} = {value!r} breaks 'one epoch is one RL step': {advice}"
            )
    epochs = trainer.get("max_epochs", 1)
    if epochs is None or epochs < 1:
        raise ValueError(
            f"trainer.max_epochs = {epochs!r}: it is the number of RL steps, at least 1"
        )

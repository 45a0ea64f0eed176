"""Entropy of the policy over a training step."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from callbacks.step_rollouts import log_step, step_rollouts
from gtpo_lit.types import Rollouts


class EntropyMonitor(Callback):
    """Logs `train/entropy/mean`, `train/entropy/correct` and `train/entropy/wrong`.

    Each is the mean over response tokens of the full-vocabulary entropy in nats, at the sampling
    temperature, of the policy that sampled: over all sequences, over those in O+, and over the
    rest. A side without any token is left out of that step, and so are all three where the run
    computes no entropies (``data.entropy_source: none``).
    """

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step's means."""
        log_step(pl_module, entropy_means(step_rollouts(trainer, type(self).__name__)))


def entropy_means(rollouts: Rollouts) -> dict[str, float]:
    """Token means of the entropy by metric name; a mean that cannot be told is left out."""
    correct = rollouts.correct[:, None]
    sides = {
        "train/entropy/mean": rollouts.mask,
        "train/entropy/correct": rollouts.mask & correct,
        "train/entropy/wrong": rollouts.mask & ~correct,
    }
    if rollouts.entropy[rollouts.mask].isnan().all():
        return {}
    return {name: _mean(rollouts.entropy[mask]) for name, mask in sides.items() if mask.any()}


def _mean(values: Tensor) -> float:
    return float(values.double().mean())

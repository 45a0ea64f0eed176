"""Distributions behind the means of a training step."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from callbacks.step_rollouts import step_rollouts
from gtpo_lit.run_logger import log_histogram
from gtpo_lit.types import Rollouts


class StepHistograms(Callback):
    """Gives a step's distributions to loggers that take histograms, as `histogram/...`.

    `entropy` is over response tokens, in nats; `length` in tokens and `reward` over sequences.
    TensorBoard and Weights & Biases (`gtpo_lit.loggers`) take them; with no such logger nothing
    happens. The last step always gets its histograms.
    """

    def __init__(self, every: int = 10) -> None:
        """Check the option.

        Args:
            every: RL steps between histograms.

        Raises:
            ValueError: if it is below 1.
        """
        if every < 1:
            raise ValueError(f"StepHistograms: every must be at least 1, got {every}")
        self.every = every

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step's distributions, if it is its turn."""
        step = trainer.current_epoch + 1
        if not trainer.is_global_zero or (step % self.every and step != trainer.max_epochs):
            return
        for name, values in distributions(step_rollouts(trainer, type(self).__name__)).items():
            log_histogram(trainer, step, name, values)


def distributions(rollouts: Rollouts) -> dict[str, Tensor]:
    """The numbers of each histogram by name; one without finite numbers is left out."""
    written = rollouts.length > 0
    entropy = rollouts.entropy[rollouts.mask]
    found = {
        "histogram/entropy": entropy[entropy.isfinite()],
        "histogram/length": rollouts.length[written],
        "histogram/reward": rollouts.reward[written],
    }
    return {name: values for name, values in found.items() if len(values)}

"""Length of the responses of a training step."""

from __future__ import annotations

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.step_rollouts import log_step, step_rollouts
from gtpo_lit.types import Rollouts


class ResponseLengthMonitor(Callback):
    """Logs `train/length/mean`, `/min`, `/max`, `/truncated_fraction` and `/terminated_fraction`.

    Lengths count the tokens that the policy wrote, the end token included, whatever of them the
    loss leaves out. A response is truncated if the token limit cut it, else it is terminated.
    """

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step's lengths."""
        log_step(pl_module, length_statistics(step_rollouts(trainer, type(self).__name__)))


def length_statistics(rollouts: Rollouts) -> dict[str, float]:
    """The statistics by metric name; nothing if no row has a token (such rows are filling)."""
    written = rollouts.length > 0
    if not written.any():
        return {}
    length = rollouts.length[written].double()
    truncated = float(rollouts.truncated[written].double().mean())
    return {
        "train/length/mean": float(length.mean()),
        "train/length/min": float(length.min()),
        "train/length/max": float(length.max()),
        "train/length/truncated_fraction": truncated,
        "train/length/terminated_fraction": 1.0 - truncated,
    }

"""How long responses are, and how many were cut."""

from __future__ import annotations

from callbacks.step_callback import StepCallback
from gtpo_lit.types import Rollouts


class ResponseLengthMonitor(StepCallback):
    """Logs `train/length/mean`, `/min`, `/max`, `/truncated_fraction` and `/terminated_fraction`.

    Lengths are the engine's, in tokens, the end token included; never those of a loss mask.
    """

    def measure(self, rollouts: Rollouts) -> dict[str, float]:
        """Over all sequences of the step."""
        length = rollouts.length.double()
        truncated = float(rollouts.truncated.double().mean())
        return {
            "train/length/mean": float(length.mean()),
            "train/length/min": float(length.min()),
            "train/length/max": float(length.max()),
            "train/length/truncated_fraction": truncated,
            "train/length/terminated_fraction": 1 - truncated,
        }

"""Policy entropy of the step, correct and wrong answers apart."""

from __future__ import annotations

from torch import Tensor

from callbacks.step_callback import StepCallback
from gtpo_lit.types import Rollouts


class EntropyMonitor(StepCallback):
    """Logs `train/entropy/mean`, `/correct` and `/wrong`.

    Each is the mean over response tokens of the full-vocabulary entropy of the policy that sampled,
    at the sampling temperature, in nats: a token mean, not a mean of sequence means. A step without
    a correct (or wrong) answer leaves that cell empty.
    """

    def measure(self, rollouts: Rollouts) -> dict[str, float]:
        """Token means over all, correct and wrong rows."""
        correct = rollouts.correct[:, None]
        sides = {
            "mean": rollouts.mask,
            "correct": rollouts.mask & correct,
            "wrong": rollouts.mask & ~correct,
        }
        return {
            f"train/entropy/{name}": _mean(rollouts.entropy, mask)
            for name, mask in sides.items()
            if bool(mask.any())
        }


def _mean(values: Tensor, mask: Tensor) -> float:
    return float(values[mask].double().mean())

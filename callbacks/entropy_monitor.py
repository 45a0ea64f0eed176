"""Entropy of the policy over a training step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from callbacks.step_rollouts import log_step, step_rollouts
from gtpo_lit.functional.entropy_profile import position_means, quantiles, top_share
from gtpo_lit.types import Rollouts


class EntropyMonitor(Callback):
    """Logs the step's full-vocabulary token entropies, in nats, as `train/entropy/...`.

    They are those of the policy that sampled, at the sampling temperature, over response tokens:

    * `mean`, `correct`, `wrong`: means over all sequences, over those in O+, over the rest;
    * `q10`, `q50`, `q90`: quantiles over all tokens;
    * `part_1` to `part_4`: means by relative position, the k-th quarter of each response;
    * `top_share`: the share of all entropy that the 20 % most uncertain tokens hold.

    What has no token is left out of that step, and so is everything where the run computes no
    entropies (``data.entropy_source: none``).
    """

    def __init__(
        self, quantiles: Sequence[float] = (0.1, 0.5, 0.9), parts: int = 4, top: float = 0.2
    ) -> None:
        """Check the options.

        Args:
            quantiles: levels, whole percents between 0 and 1; 0.05 is logged as `q5`.
            parts: number of parts of a response; 0 logs none.
            top: fraction of the tokens for `top_share`.

        Raises:
            ValueError: naming option and value.
        """
        for level in quantiles:
            if not 0 <= level <= 1 or abs(level * 100 - round(level * 100)) > 1e-9:
                raise ValueError(f"EntropyMonitor.quantiles: {level} is no whole percent in [0, 1]")
        if parts < 0:
            raise ValueError(f"EntropyMonitor.parts must be at least 0, got {parts}")
        if not 0 < top <= 1:
            raise ValueError(f"EntropyMonitor.top must be in (0, 1], got {top}")
        self.quantiles = tuple(quantiles)
        self.parts = parts
        self.top = top

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step's numbers."""
        rollouts = step_rollouts(trainer, type(self).__name__)
        log_step(pl_module, entropy_means(rollouts) | self.spread(rollouts))

    def spread(self, rollouts: Rollouts) -> dict[str, float]:
        """Quantiles, means by position and the top tokens' share, by metric name."""
        values = rollouts.entropy[rollouts.mask]
        spoiled = bool(values.isnan().any())
        if values.isnan().all():
            return {}
        # NaN sorts last: without this it would pass for the most uncertain token.
        ordered = values.new_full((1,), torch.nan) if spoiled else values.sort().values
        names = [f"q{round(100 * level)}" for level in self.quantiles]
        found = dict(zip(names, quantiles(ordered, self.quantiles), strict=True))
        if self.parts:
            means = position_means(rollouts.entropy, rollouts.mask, self.parts)
            numbered = enumerate(means.tolist(), start=1)
            found |= {f"part_{number}": mean for number, mean in numbered}
        found["top_share"] = top_share(ordered, self.top)
        # A NaN that no entropy brought in only says that there was no token, or no entropy.
        kept = {name: value for name, value in found.items() if spoiled or not math.isnan(value)}
        return {f"train/entropy/{name}": value for name, value in kept.items()}


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

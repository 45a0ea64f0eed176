"""The importance correction for an engine whose log-probs are not the policy's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from gtpo_lit.functional.mismatch import (
    WeightBound,
    WeightLevel,
    bound_weights,
    comparable,
    cut_fraction,
    effective_sample_size,
    importance_weights,
    log_ratio,
    sampler_kl,
)
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.types import Rollouts


@dataclass(frozen=True, kw_only=True)
class MismatchCorrection:
    """Weights exp(logp_old - logp_sampler) on the token losses, kept within bounds.

    They multiply each token's clipped loss and have no gradient. Denominators stay: a token or
    sequence of weight 0 keeps counting in them. The KL term and the entropy bonus have no weight.
    A token that the engine reported no log-prob for has weight 1.

    Source: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"
    (2025), whose truncated importance sampling is the default.

    Args:
        level: a weight for each token, or the product of a sequence's for all its tokens.
        bound: weights outside [low, high] are set to the nearer end ("truncate") or to 0 ("mask").
        low: the least weight.
        high: the largest weight (the cap).
    """

    level: WeightLevel = "token"
    bound: WeightBound = "truncate"
    low: float = 0.0
    high: float = 2.0

    def weights(self, rollouts: Rollouts) -> Tensor:
        """[B, T] weights of the token losses, from log-probs that are there; 1 where masked."""
        return torch.where(rollouts.mask, self._bounded(self._raw(rollouts)), 1.0)

    def metrics(self, rollouts: Rollouts) -> dict[str, float]:
        """`train/correction/...` of a whole step, over credit tokens or living sequences."""
        raw = self._raw(rollouts)
        units = rollouts.mask if self.level == "token" else rollouts.mask.any(dim=1, keepdim=True)
        raw = raw[units]
        applied = self._bounded(raw)
        some = applied if applied.numel() else applied.new_ones(1)
        return {
            "train/correction/weight_mean": float(some.mean(dtype=torch.float64)),
            "train/correction/weight_min": float(some.min()),
            "train/correction/weight_max": float(some.max()),
            "train/correction/cut_fraction": float(cut_fraction(raw, low=self.low, high=self.high)),
            "train/correction/effective_sample_size": float(effective_sample_size(applied)),
        }

    def _raw(self, rollouts: Rollouts) -> Tensor:
        assert rollouts.logp_sampler is not None, "the collector stops before"
        ratios = log_ratio(rollouts.logp_old, rollouts.logp_sampler, rollouts.mask)
        return importance_weights(ratios, self.level)

    def _bounded(self, weights: Tensor) -> Tensor:
        return bound_weights(weights, self.bound, low=self.low, high=self.high)


def check_correction(correction: MismatchCorrection | None, sampler: Sampler) -> None:
    """Refuse bounds that make no sense, and a correction that could not tell a difference.

    Raises:
        ValueError: naming option and value.
    """
    if correction is None:
        return
    for name, value, allowed in (
        ("level", correction.level, get_args(WeightLevel)),
        ("bound", correction.bound, get_args(WeightBound)),
    ):
        if value not in allowed:
            raise ValueError(f"data.correction.{name} must be one of {allowed}, got {value!r}")
    if not 0 <= correction.low <= 1:
        raise ValueError(f"data.correction.low must be in [0, 1], got {correction.low}")
    if not 1 <= correction.high < math.inf:
        raise ValueError(
            f"data.correction.high must be at least 1 and finite, got {correction.high}"
        )
    if not sampler.reports_logprobs:
        raise ValueError(
            "data.correction needs a sampler that reports the log-probs of its tokens; "
            f"data.sampler is {type(sampler).__name__}, which does not"
        )


def gap_metrics(rollouts: Rollouts) -> dict[str, float]:
    """`train/sampler_gap/...` of a whole step: how far the sampler is from the policy.

    All are over credit tokens whose log-prob the sampler reported; where there is none, only the
    share of the missing ones is told.
    """
    mask, logp_old, logp_sampler = rollouts.mask, rollouts.logp_old, rollouts.logp_sampler
    tokens = int(mask.sum())
    if logp_sampler is None or tokens == 0:
        return {"train/sampler_gap/missing_fraction": float(tokens > 0)}
    told = comparable(logp_old, logp_sampler, mask)
    count = int(told.sum())
    metrics = {"train/sampler_gap/missing_fraction": 1 - count / tokens}
    if count == 0:
        return metrics
    ratios = log_ratio(logp_old, logp_sampler, mask)[told]
    distance = ratios.abs()
    return metrics | {
        "train/sampler_gap/mean": float(distance.mean(dtype=torch.float64)),
        "train/sampler_gap/max": float(distance.max()),
        "train/sampler_gap/kl_k1": float(sampler_kl(ratios, "k1")),
        "train/sampler_gap/kl_k3": float(sampler_kl(ratios, "k3")),
        "train/sampler_gap/effective_sample_size": float(effective_sample_size(ratios.exp())),
    }

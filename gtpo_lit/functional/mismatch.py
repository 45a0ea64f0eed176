"""How far the engine that sampled is from the policy that trains, and weights that make up for it.

An inference engine gives the same weights other log-probs than the trainer does (other kernels,
precision or batches), so that completions come from a policy that is not quite the old one. With
d = log pi_old - log pi_sampler at each token, exp(d) is the importance weight of what was drawn.

Sources: Yao et al., "Your Efficient RL Framework Secretly Brings You Off-Policy RL Training"
(2025): truncated importance sampling, min(w, C). Liu, Li et al., "When Speed Kills Stability"
(2025): masks, and weights of whole sequences.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gtpo_lit.functional.surrogate import LARGEST_LOG_RATIO, kl_estimate

WeightLevel = Literal["token", "sequence"]
WeightBound = Literal["truncate", "mask"]


def comparable(logp_old: Tensor, logp_sampler: Tensor, mask: Tensor) -> Tensor:
    """[B, T] bool: the tokens of `mask` whose two log-probs have a difference.

    A log-prob that is NaN was not reported; two of -inf have no difference.
    """
    return mask & ~(logp_old - logp_sampler).isnan()


def log_ratio(logp_old: Tensor, logp_sampler: Tensor, mask: Tensor) -> Tensor:
    """[B, T] d = logp_old - logp_sampler in nats, within +-60; 0 where it cannot be told.

    Args:
        logp_old: [B, T] log-probs under the policy that trains, before its update.
        logp_sampler: [B, T] log-probs that the engine reported; may hold -inf and NaN.
        mask: [B, T] bool, tokens that count; what lies elsewhere is not read.
    """
    told = comparable(logp_old, logp_sampler, mask)
    gap = torch.where(told, logp_old - logp_sampler, 0.0)
    # exp overflows float32 beyond 88, and both log-probs may be -inf.
    return gap.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def importance_weights(log_ratios: Tensor, level: WeightLevel) -> Tensor:
    """Weights of what was drawn, before any cap.

    "token": exp(d_t), [B, T]. "sequence": exp(sum_t d_t) = prod_t exp(d_t), [B, 1].

    Args:
        log_ratios: [B, T] from `log_ratio`: 0 where a token does not count.
        level: of the weights.

    Raises:
        ValueError: for an unknown `level`.

    Example:
        >>> importance_weights(torch.tensor([[2.0, 0.5]]).log(), "sequence")
        tensor([[1.]])
    """
    if level == "token":
        return log_ratios.exp()
    if level == "sequence":
        total = log_ratios.sum(dim=1, keepdim=True, dtype=torch.float64)
        total = total.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        return total.to(log_ratios.dtype).exp()
    raise ValueError(f"level must be one of {get_args(WeightLevel)}, got {level!r}")


def bound_weights(
    weights: Tensor, bound: WeightBound, *, low: float = 0.0, high: float = 2.0
) -> Tensor:
    """Weights kept within [low, high].

    "truncate": min(max(w, low), high) (TIS with low = 0). "mask": w inside, 0 outside.

    Args:
        weights: of any shape, never negative.
        bound: what happens to a weight outside.
        low: the least weight.
        high: the largest weight.

    Raises:
        ValueError: for an unknown `bound`.

    Example:
        >>> bound_weights(torch.tensor([0.1, 1.0, 8.0]), "mask", low=0.5)
        tensor([0., 1., 0.])
    """
    if bound == "truncate":
        return weights.clamp(low, high)
    if bound == "mask":
        return torch.where((weights >= low) & (weights <= high), weights, 0.0)
    raise ValueError(f"bound must be one of {get_args(WeightBound)}, got {bound!r}")


def cut_fraction(weights: Tensor, *, low: float = 0.0, high: float = 2.0) -> Tensor:
    """[] float64: share of `weights` [N] (before the bound) outside [low, high]; 0 of nothing."""
    outside = (weights < low) | (weights > high)
    return outside.sum(dtype=torch.float64) / max(1, weights.numel())


def effective_sample_size(weights: Tensor) -> Tensor:
    """[] float64: (sum w)^2 / (N sum w^2) of `weights` [N], in [0, 1] (Kish, 1965).

    1 where all are equal, 1/N where one outweighs all others, 0 where none is above 0. It does not
    depend on the scale of the weights.
    """
    largest = weights.max() if weights.numel() else weights.new_zeros(())
    if largest <= 0:
        return weights.new_zeros((), dtype=torch.float64)
    # Squares of weights may overflow; shares of the largest one do not.
    shares = weights.double() / largest.double()
    return shares.sum().square() / (shares.numel() * shares.square().sum())


def sampler_kl(log_ratios: Tensor, kind: Literal["k1", "k3"]) -> Tensor:
    """[] float64: estimate of KL(sampler, policy) in nats, mean over tokens; 0 of nothing.

    k1 = mean(-d), which may be negative; k3 = mean(exp(d) - 1 - d), which may not.

    Args:
        log_ratios: [N] d = logp_old - logp_sampler of the tokens that count.
        kind: of the estimate, see `kl_estimate`.
    """
    gaps = log_ratios.double()
    # Only the difference of the two log-probs matters, and the sampler's is -d above the policy's.
    return kl_estimate(-gaps, torch.zeros_like(gaps), kind).sum() / max(1, gaps.numel())

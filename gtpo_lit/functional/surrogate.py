"""The clipped surrogate, its ratio levels and aggregations, and KL estimates."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gtpo_lit.functional.masked import masked_mean, row_mean

Ratio = Literal["token", "sequence_geometric", "sequence_arithmetic"]
SequenceRatio = Literal["arithmetic", "geometric"]
Aggregate = Literal["token_mean", "sequence_mean", "constant_length"]
KLKind = Literal["k1", "k2", "k3"]

# exp overflows float32 beyond 88; a ratio this far out is clipped or dual-clipped anyway.
LARGEST_LOG_RATIO = 60.0

# By this a loss says that it took the correction in.
CORRECTION_METRIC = "correction/loss_weight"


def count_units(mask: Tensor, aggregate: Aggregate) -> Tensor:
    """[] What an aggregation divides by: tokens for `token_mean`, else rows with any token."""
    return (mask if aggregate == "token_mean" else mask.any(dim=1)).sum()


def aggregate_tokens(
    values: Tensor,
    mask: Tensor,
    aggregate: Aggregate,
    *,
    max_length: int | None = None,
    denominator: Tensor | float | None = None,
) -> Tensor:
    """Token values as one number; exactly 0 where nothing is unmasked.

    Args:
        values: [B, T].
        mask: [B, T] bool.
        aggregate: "token_mean" = sum / tokens; "sequence_mean" = mean over sequences of their
            token means; "constant_length" = sums / `max_length`, mean over sequences. Fully masked
            rows do not count.
        max_length: the constant of "constant_length".
        denominator: replaces the count of tokens (token_mean) or of sequences (the others), so
            that parts of a mini-batch add up to the whole.

    Raises:
        ValueError: for an unknown `aggregate`, or "constant_length" without `max_length`.
    """
    if aggregate not in get_args(Aggregate):
        raise ValueError(f"aggregate must be one of {get_args(Aggregate)}, got {aggregate!r}")
    kept = values.masked_fill(~mask, 0.0)
    if aggregate == "token_mean":
        total = kept.sum()
    elif aggregate == "sequence_mean":
        total = row_mean(kept, mask).sum()
    else:
        if max_length is None or max_length < 1:
            raise ValueError(f"aggregate 'constant_length' needs max_length >= 1, got {max_length}")
        total = kept.sum() / max_length
    units = count_units(mask, aggregate) if denominator is None else denominator
    return total / torch.as_tensor(units, dtype=total.dtype, device=total.device).clamp(min=1)


def importance_ratio(logp: Tensor, logp_old: Tensor, mask: Tensor, ratio: Ratio) -> Tensor:
    """The ratio of the current to the sampling policy.

    "token": w_t = exp(logp_t - logp_old_t), [B, T]. "sequence_geometric": exp of the mean log
    ratio, [B, 1] (GSPO). "sequence_arithmetic": mean of the token ratios, [B, 1] (GRPO-S). Masked
    positions have log ratio 0 and no gradient, whatever they hold.

    Raises:
        ValueError: for an unknown `ratio`.
    """
    log_ratio = torch.where(mask, logp - logp_old, 0.0).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    if ratio == "token":
        return log_ratio.exp()
    if ratio == "sequence_geometric":
        return row_mean(log_ratio, mask).exp()[:, None]
    if ratio == "sequence_arithmetic":
        return row_mean(log_ratio.exp(), mask)[:, None]
    raise ValueError(f"ratio must be one of {get_args(Ratio)}, got {ratio!r}")


def policy_loss(
    logp: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = None,
    ratio: Ratio = "token",
    aggregate: Aggregate = "token_mean",
    max_length: int | None = None,
    denominator: Tensor | float | None = None,
    correction: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """-min(w A, clip(w, 1 - low, 1 + high) A), aggregated (PPO; DAPO Eq. 8; GTPO Eq. 7).

    Args:
        logp: [B, T] log-probs under the current policy, with gradient.
        logp_old: [B, T] log-probs under the policy that sampled.
        advantages: [B] or [B, T]; a sequence ratio takes only [B].
        mask: [B, T] bool, tokens that get gradient.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: where A < 0, the loss is at most -dual_clip * A (off by default).
        ratio: level of the importance ratio.
        aggregate: see `aggregate_tokens`; with a sequence ratio every token of a sequence holds
            the sequence's value.
        max_length: the constant of "constant_length".
        denominator: replaces the count of tokens or sequences.
        correction: [B, T] weights of the token losses, taken as constants; denominators stay. All
            are 1 if not given.

    Returns:
        [] loss, exactly 0 with zero gradient where everything is masked, and metrics: the ratio's
        mean, extremes and clipped shares, k3 of KL(old, current), and the mean correction if one
        is given, over loss tokens.

    Raises:
        ValueError: for token advantages with a sequence ratio, or an unknown option.
    """
    if advantages.ndim == 2 and ratio != "token":
        raise ValueError(f"advantages [B, T] need ratio 'token', got {ratio!r}")
    credit = advantages if advantages.ndim == 2 else advantages[:, None]
    # Garbage under the mask must reach neither the loss nor, as 0 * inf, its gradient.
    credit = torch.where(mask, credit.to(logp.dtype), 0.0)
    weight = importance_ratio(logp, logp_old, mask, ratio).expand_as(logp)
    plain = -credit * weight
    clipped = -credit * weight.clamp(1 - clip_low, 1 + clip_high)
    loss = torch.maximum(plain, clipped)
    is_clipped = clipped > plain
    metrics: dict[str, Tensor] = {}
    if dual_clip is not None:
        bound = -credit * dual_clip
        is_bound = (credit < 0) & (loss > bound)
        loss = torch.where(is_bound, bound, loss)
        metrics["ratio/dual_clipped_fraction"] = masked_mean(is_bound.double(), mask)
    if correction is not None:
        # As with advantages, what lies under the mask must not reach the gradient.
        share = torch.where(mask, correction.detach().to(loss.dtype), 1.0)
        loss = loss * share
        metrics[CORRECTION_METRIC] = masked_mean(share.double(), mask)
    total = aggregate_tokens(loss, mask, aggregate, max_length=max_length, denominator=denominator)
    metrics |= _ratio_metrics(logp.detach(), logp_old, weight.detach(), is_clipped, mask)
    return total, metrics


def _ratio_metrics(
    logp: Tensor, logp_old: Tensor, weight: Tensor, is_clipped: Tensor, mask: Tensor
) -> dict[str, Tensor]:
    seen = weight.masked_fill(~mask, 1.0)
    gap = torch.where(mask, logp - logp_old, 0.0).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return {
        "ratio/mean": masked_mean(seen, mask),
        "ratio/max": seen.max() if seen.numel() else seen.new_ones(()),
        "ratio/min": seen.min() if seen.numel() else seen.new_ones(()),
        "ratio/clipped_fraction": masked_mean(is_clipped.double(), mask),
        "kl/old": masked_mean(gap.exp() - 1 - gap, mask),
    }


def kl_estimate(
    logp: Tensor, logp_ref: Tensor, kind: KLKind = "k3", *, straight_through: bool = False
) -> Tensor:
    """[B, T] estimates of KL(policy, reference); the gradient is the expression's own.

    With d = logp - logp_ref: k1 = d, k2 = d^2 / 2, k3 = exp(-d) - 1 + d (Schulman, "Approximating
    KL divergence", 2020). The expected gradient of k1 is 0 and only k2's is that of the KL, so
    `straight_through` gives k2's gradient with the named estimator's value.

    Raises:
        ValueError: for an unknown `kind`.
    """
    gap = (logp - logp_ref).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    square = gap.square() / 2
    if kind == "k1":
        value = gap
    elif kind == "k2":
        value = square
    elif kind == "k3":
        value = (-gap).exp() - 1 + gap
    else:
        raise ValueError(f"kind must be one of {get_args(KLKind)}, got {kind!r}")
    return square + (value - square).detach() if straight_through else value

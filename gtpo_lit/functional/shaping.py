"""Dynamic entropy weighting: entropy turned into reward mass (arXiv 2508.04349, Eq. 3 and 5)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from gtpo_lit.functional.masked import group_index, row_mean, segment_min, segment_sum
from gtpo_lit.functional.placebo import ShareWeights, placebo_entropy

EntropyMean = Literal["arithmetic", "geometric"]


def bounded_entropy(
    entropy: Tensor, *, floor: float = 0.0, clip: tuple[float, float] | None = None
) -> Tensor:
    """Entropies at least `floor`, and inside [low, high] if a clip is given.

    Raises:
        ValueError: for a negative floor or an empty interval.
    """
    if floor < 0:
        raise ValueError(f"entropy_floor must be at least 0, got {floor}")
    bounded = entropy.clamp(min=floor)
    if clip is None:
        return bounded
    if not 0 <= clip[0] <= clip[1]:
        raise ValueError(f"entropy_clip must be [low, high] with 0 <= low <= high, got {clip}")
    return bounded.clamp(clip[0], clip[1])


def proportional_shares(weight: Tensor, alive: Tensor, index: Tensor, count: int) -> Tensor:
    """H_i / sum_k H_k over the alive rows of each segment and column; 0 where not alive.

    A column whose weights are all zero is shared equally.

    Args:
        weight: [B, T], not negative.
        alive: [B, T] bool.
        index: [B] segment of each row.
        count: number of segments.
    """
    kept = torch.where(alive, weight, 0.0)
    total = segment_sum(kept, index, count)[index]
    members = segment_sum(alive.to(weight.dtype), index, count)[index]
    equal = alive / members.clamp(min=1)
    # NaN is no zero: a column that holds one is NaN, so that it is noticed.
    return torch.where(total == 0, equal, kept / torch.where(total == 0, 1.0, total))


def inverse_shares(weight: Tensor, alive: Tensor, index: Tensor, count: int) -> Tensor:
    """(1 / H_j) / sum_k (1 / H_k), as (Hmin / H_j) / sum_k (Hmin / H_k) so that nothing overflows.

    Exact zeros split their column's whole share equally. Arguments as in `proportional_shares`.
    """
    least = segment_min(torch.where(alive, weight, torch.inf), index, count)[index]
    quotient = least / torch.where(alive & (weight != 0), weight, 1.0)
    relative = torch.where(least == 0, (weight == 0).to(weight.dtype), quotient)
    return proportional_shares(relative, alive, index, count)


def token_shares(
    entropy: Tensor,
    mask: Tensor,
    correct: Tensor,
    group: Tensor,
    *,
    share_weights: ShareWeights = "entropy",
    seed: int | Tensor = 0,
) -> tuple[Tensor, Tensor]:
    """Each token's share of its side's mass at its position, and the number of alive members.

    Args:
        entropy: [B, T] bounded entropies.
        mask: [B, T] bool.
        correct: [B] bool.
        group: [B] int64.
        share_weights: the entropies, or a placebo in their place.
        seed: of the placebo; an integer, or [B] int64.

    Returns:
        Two [B, T] tensors, 0 where masked: shares, and d_t or h_t.
    """
    dense, count = group_index(group)
    index = 2 * dense + correct.long()
    weight, inverted = placebo_entropy(entropy, mask, index, share_weights, seed=seed)
    rising = proportional_shares(weight, mask, index, 2 * count)
    falling = inverse_shares(weight, mask, index, 2 * count)
    shares = torch.where((correct != inverted)[:, None], rising, falling)
    members = segment_sum(mask.to(entropy.dtype), index, 2 * count)[index]
    return shares, torch.where(mask, members, 0.0)


def token_rewards(
    entropy: Tensor,
    mask: Tensor,
    reward: Tensor,
    correct: Tensor,
    group: Tensor,
    *,
    alpha1: float = 1.0,
    alpha2: float = 0.1,
    entropy_floor: float = 0.0,
    entropy_clip: tuple[float, float] | None = None,
    share_weights: ShareWeights = "entropy",
    seed: int | Tensor = 0,
) -> Tensor:
    """GTPO's shaped token rewards (Eq. 3 for O+, Eq. 5 for O-).

    In a correct sequence, alpha1 r_i + alpha2 d_t H_it / sum_k H_kt; in a wrong one,
    -alpha1 - alpha2 h_t (1 / H_jt) / sum_k (1 / H_kt), sums over the group's members on the same
    side that are alive at t.

    Args:
        entropy: [B, T] nats under the sampling policy.
        mask: [B, T] bool; a masked position is not alive.
        reward: [B]; read for correct sequences only.
        correct: [B] bool, membership of O+.
        group: [B] int64, in any order.
        alpha1: weight of the outcome.
        alpha2: weight of the entropy share.
        entropy_floor: see `bounded_entropy`.
        entropy_clip: see `bounded_entropy`.
        share_weights: the entropies, or a placebo.
        seed: of the placebo; an integer, or [B] int64.

    Returns:
        [B, T] in the dtype of `entropy`, 0 where masked.

    Example:
        >>> token_rewards(torch.tensor([[3.0], [1.0]]), torch.ones(2, 1).bool(), torch.ones(2),
        ...               torch.tensor([True, True]), torch.tensor([0, 0]))
        tensor([[1.1500],
                [1.0500]])
    """
    bounded = bounded_entropy(entropy, floor=entropy_floor, clip=entropy_clip)
    shares, members = token_shares(
        bounded, mask, correct, group, share_weights=share_weights, seed=seed
    )
    base = torch.where(correct, alpha1 * reward.to(entropy.dtype), -alpha1)
    sign = torch.where(correct, 1.0, -1.0).to(entropy.dtype)
    shaped = base[:, None] + sign[:, None] * alpha2 * shares * members
    return torch.where(mask, shaped, 0.0)


def sequence_entropy(entropy: Tensor, mask: Tensor, *, mean: EntropyMean = "arithmetic") -> Tensor:
    """[B] mean entropy of each row's tokens; geometric as in Appendix C; 0 for an empty row."""
    if mean == "arithmetic":
        return row_mean(entropy, mask)
    logs = torch.where(mask, entropy, 1.0).log()
    return torch.where(mask.any(dim=1), row_mean(logs, mask).exp(), 0.0)


def sequence_rewards(
    entropy: Tensor,
    mask: Tensor,
    reward: Tensor,
    correct: Tensor,
    group: Tensor,
    *,
    beta1: float = 1.0,
    beta2: float = 0.1,
    entropy_mean: EntropyMean = "arithmetic",
    entropy_floor: float = 0.0,
    entropy_clip: tuple[float, float] | None = None,
    share_weights: ShareWeights = "entropy",
    seed: int | Tensor = 0,
) -> Tensor:
    """GRPO-S's shaped sequence rewards (arXiv 2508.04349, section on GRPO-S).

    In a correct sequence, beta1 r_i + beta2 n H^_i / sum_k H^_k; in a wrong one,
    -beta1 - beta2 m (1 / H^_j) / sum_k (1 / H^_k), with H^ the sequence's mean entropy and n, m the
    number of correct and wrong sequences of the group.

    Arguments as in `token_rewards`. A fully masked sequence has reward 0 and counts for nothing.

    Returns:
        [B] in the dtype of `entropy`.
    """
    bounded = bounded_entropy(
        sequence_entropy(entropy, mask, mean=entropy_mean), floor=entropy_floor, clip=entropy_clip
    )
    shaped = token_rewards(
        bounded[:, None],
        mask.any(dim=1, keepdim=True),
        reward,
        correct,
        group,
        alpha1=beta1,
        alpha2=beta2,
        share_weights=share_weights,
        seed=seed,
    )
    return shaped[:, 0]

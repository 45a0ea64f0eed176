"""Whether shaped rewards keep their mass, and over how many sequences they spread it."""

from __future__ import annotations

import torch
from torch import Tensor

from gtpo_lit.functional.masked import group_index, segment_sum


def conservation_gap(
    shaped: Tensor,
    mask: Tensor,
    reward: Tensor,
    correct: Tensor,
    group: Tensor,
    *,
    weight1: float,
    weight2: float,
) -> Tensor:
    """[] Largest relative distance of a side's shaped mass at a position from what it must be.

    At each t: sum over O+ = weight1 sum r + weight2 d_t, and sum over O- = -(weight1 + weight2)
    h_t; this is the plain reward mass when the weights sum to one. The distance is divided by
    weight1 sum |r| + weight2 d_t, which is the mass itself where no reward is negative, and never
    vanishes by cancellation. Computed in float64, before penalties, from [B, T] tensors (T = 1 for
    sequence rewards). NaN if a shaped reward is; infinite where there should be no mass, but is.

    Example:
        >>> shaped = torch.tensor([[1.2], [1.0], [-1.1]])  # sums to 2.2 on the right side
        >>> conservation_gap(shaped * 0.9, torch.ones(3, 1).bool(), torch.tensor([1.0, 1.0, 0.0]),
        ...                  torch.tensor([True, True, False]), torch.tensor([0, 0, 0]),
        ...                  weight1=1.0, weight2=0.1).round(decimals=6)
        tensor(0.1000, dtype=torch.float64)
    """
    dense, count = group_index(group)
    index = 2 * dense + correct.long()
    alive = mask.double()
    outcome = torch.where(correct, reward.double(), -1.0)
    sign = torch.where(correct, 1.0, -1.0).double()
    wanted_each = (weight1 * outcome + weight2 * sign)[:, None]
    scale_each = (weight1 * outcome.abs() + weight2)[:, None]
    found = segment_sum(torch.where(mask, shaped.double(), 0.0), index, 2 * count)
    wanted = segment_sum(wanted_each * alive, index, 2 * count)
    scale = segment_sum(scale_each * alive, index, 2 * count)
    distance = (found - wanted).abs()
    # 0 / 0 is no gap, and x / 0 an infinite one.
    return torch.where(distance == 0, 0.0, distance / scale).max()


def effective_members(shares: Tensor, mask: Tensor, correct: Tensor, group: Tensor) -> Tensor:
    """[] Mean of 1 / sum(share^2) over all sides and positions with at least two alive members.

    It is the number of members where all share alike and 1 where one takes all; 0 if no position
    has two members.
    """
    dense, count = group_index(group)
    index = 2 * dense + correct.long()
    members = segment_sum(mask.double(), index, 2 * count)
    squares = segment_sum(torch.where(mask, shares.double(), 0.0).square(), index, 2 * count)
    seen = members >= 2
    inverse = torch.where(seen, 1 / squares.clamp(min=1e-300), 0.0)
    return inverse.sum() / seen.sum().clamp(min=1)


def sign_flips(advantages: Tensor, mask: Tensor, side: Tensor, sign: float) -> Tensor:
    """[] Share of the tokens of the rows in `side` [B] whose advantage has the sign of -`sign`.

    An advantage of 0 is no flip.

    Example:
        >>> sign_flips(torch.tensor([[1.0, -1.0, 0.0, -9.0]]),
        ...            torch.tensor([[True, True, True, False]]), torch.tensor([True]), 1.0)
        tensor(0.3333)
    """
    seen = mask & side[:, None]
    flipped = (advantages * sign < 0) & seen
    return flipped.sum() / seen.sum().clamp(min=1)

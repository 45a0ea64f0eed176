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
    h_t; this is the plain reward mass when the weights sum to one. Computed in float64, before
    penalties, from [B, T] tensors (T = 1 for sequence rewards).
    """
    dense, count = group_index(group)
    index = 2 * dense + correct.long()
    alive = mask.double()
    wanted_each = torch.where(correct, weight1 * reward.double() + weight2, -(weight1 + weight2))[
        :, None
    ]
    found = segment_sum(torch.where(mask, shaped.double(), 0.0), index, 2 * count)
    wanted = segment_sum(wanted_each * alive, index, 2 * count)
    scale = segment_sum(wanted_each.abs() * alive, index, 2 * count)
    return torch.where(scale > 0, (found - wanted).abs() / scale.clamp(min=1e-300), 0.0).max()


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
    """[] Share of the tokens of the rows in `side` [B] whose advantage has not the sign `sign`."""
    seen = mask & side[:, None]
    flipped = (advantages * sign < 0) & seen
    return flipped.sum() / seen.sum().clamp(min=1)

"""Where entropy shaping can act, and which entropies its bounds hold fast."""

from __future__ import annotations

import torch
from torch import Tensor

from gtpo_lit.functional.advantages import mixed_groups
from gtpo_lit.functional.masked import group_index
from gtpo_lit.functional.shaping import bounded_entropy


def context_keys(response_ids: Tensor, real: Tensor) -> Tensor:
    """[B, T + 1] int64: a number for what each row has read of its response before position t.

    Column T stands for the whole response. Rows with equal tokens before t have the same key there;
    others differ but for a chance of some 2^-62.

    Args:
        response_ids: [B, T] int64.
        real: [B, T] bool, true on every token that is no padding.

    Example:
        >>> keys = context_keys(torch.tensor([[5, 6], [5, 7]]), torch.ones(2, 2).bool())
        >>> (keys[0] == keys[1]).tolist()
        [True, True, False]
    """
    generator = torch.Generator().manual_seed(0)
    weights = torch.randint(2**62, (response_ids.shape[1],), generator=generator)
    # Integers wrap around, which keeps sums exact whatever their order.
    terms = torch.where(real, (response_ids + 1) * weights.to(response_ids.device), 0)
    return torch.cat([torch.zeros_like(terms[:, :1]), terms.cumsum(dim=1)], dim=1)


def shapeable(alive: Tensor, context: Tensor, correct: Tensor, group: Tensor) -> Tensor:
    """Where shares can be uneven: in mixed groups, where a side's alive members differ in context.

    Two members that have read the same tokens have the same entropy, whatever the policy; so a side
    of copies of one answer, or the first position, cannot be shaped.

    Args:
        alive: [B, T] bool; [B, 1] for sequence rewards.
        context: int64 of the same shape: `context_keys` of the position, or of the response.
        correct: [B] bool, membership of O+.
        group: [B] int64, in any order.

    Returns:
        Bool of the shape of `alive`, a subset of it.

    Example:
        >>> alive = torch.tensor([[True, True], [True, False], [True, True]])
        >>> context = torch.tensor([[5, 7], [6, 8], [6, 9]])
        >>> shapeable(alive, context, torch.tensor([True, True, False]), torch.tensor([0, 0, 0]))
        tensor([[ True, False],
                [ True, False],
                [False, False]])
    """
    dense, count = group_index(group)
    index = (2 * dense + correct.long())[:, None].expand_as(context)
    ends = torch.iinfo(torch.int64)
    lowest = context.new_full((2 * count, context.shape[1]), ends.max)
    highest = torch.full_like(lowest, ends.min)
    lowest.scatter_reduce_(0, index, context.where(alive, ends.max), "amin")
    highest.scatter_reduce_(0, index, context.where(alive, ends.min), "amax")
    several = (lowest != highest).gather(0, index)
    return alive & mixed_groups(correct, group, alive.any(dim=1))[:, None] & several


def moved_by_bounds(
    entropy: Tensor,
    alive: Tensor,
    *,
    floor: float = 0.0,
    clip: tuple[float, float] | None = None,
) -> dict[str, Tensor]:
    """Which alive entropies `bounded_entropy` moves: to the floor, then to an end of the clip.

    Args:
        entropy: [B, T] nats, before any bound.
        alive: [B, T] bool.
        floor: as in `bounded_entropy`.
        clip: as in `bounded_entropy`.

    Returns:
        Bool tensors of the shape of `entropy`, by name: "floor", "clip_low" and "clip_high". An
        entropy that the floor raises and the clip then moves counts at both.
    """
    nowhere = torch.zeros_like(alive)
    raised = bounded_entropy(entropy, floor=floor)
    return {
        "floor": alive & (entropy < floor),
        "clip_low": alive & (raised < clip[0]) if clip else nowhere,
        "clip_high": alive & (raised > clip[1]) if clip else nowhere,
    }

"""Where entropy shaping can act, and which entropies its bounds hold fast."""

from __future__ import annotations

import torch
from torch import Tensor

from gtpo_lit.functional.advantages import mixed_groups
from gtpo_lit.functional.masked import group_index, segment_sum
from gtpo_lit.functional.shaping import bounded_entropy


def shapeable(alive: Tensor, correct: Tensor, group: Tensor) -> Tensor:
    """Where a share can be uneven: mixed groups, two or more of the side alive at the position.

    Args:
        alive: [B, T] bool; [B, 1] for sequence rewards.
        correct: [B] bool, membership of O+.
        group: [B] int64, in any order.

    Returns:
        Bool of the shape of `alive`, a subset of it.

    Example:
        >>> alive = torch.tensor([[True, True], [True, False], [True, True]])
        >>> shapeable(alive, torch.tensor([True, True, False]), torch.tensor([0, 0, 0]))
        tensor([[ True, False],
                [ True, False],
                [False, False]])
    """
    dense, count = group_index(group)
    index = 2 * dense + correct.long()
    members = segment_sum(alive.long(), index, 2 * count)[index]
    mixed = mixed_groups(correct, group, alive.any(dim=1))
    return alive & mixed[:, None] & (members >= 2)


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

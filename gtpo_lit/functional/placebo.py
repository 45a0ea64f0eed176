"""Stand-ins for the entropies in the shares: without them no gain can be put down to entropy."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gtpo_lit.functional.noise import GOLDEN, mix_, uniform_noise

ShareWeights = Literal["entropy", "shuffled", "random", "constant", "inverted"]


def placebo_entropy(
    entropy: Tensor, mask: Tensor, index: Tensor, kind: ShareWeights, *, seed: int | Tensor
) -> tuple[Tensor, bool]:
    """What takes the place of the entropies, and whether the two sides swap their rules.

    Args:
        entropy: [B, T].
        mask: [B, T] bool.
        index: [B] number of each row's side of its group.
        kind: "entropy" as it is; "shuffled" among the alive members of a side at each position;
            "random" uniform numbers; "constant" ones; "inverted", where correct sequences get the
            inverse shares and wrong ones the proportional shares.
        seed: of the shuffle and the random numbers; [B] int64 gives every row a stream of its own,
            which makes the result independent of the order of rows.

    Raises:
        ValueError: for an unknown kind.
    """
    if kind in ("entropy", "inverted"):
        return entropy, kind == "inverted"
    if kind == "constant":
        return torch.ones_like(entropy), False
    rows, columns = entropy.shape
    seeds = seed if isinstance(seed, Tensor) else uniform_seeds(seed, rows)
    seeds = seeds.to(entropy.device)
    noise = uniform_noise(seeds, columns)
    if kind == "random":
        return noise.to(entropy.dtype), False
    if kind != "shuffled":
        raise ValueError(f"share_weights must be one of {get_args(ShareWeights)}, got {kind!r}")
    # Rows that are not alive form a segment of their own, so that values move among the alive.
    segment = torch.where(mask, index[:, None], -1)
    giver = _by_segment(segment, noise)
    taker = _by_segment(segment, uniform_noise(seeds + 1, columns))
    return torch.empty_like(entropy).scatter(0, taker, entropy.gather(0, giver)), False


def uniform_seeds(seed: int, rows: int) -> Tensor:
    """[rows] int64 seeds that differ from row to row."""
    return mix_(GOLDEN * torch.arange(1, rows + 1) + seed)


def _by_segment(segment: Tensor, key: Tensor) -> Tensor:
    """[B, T] rows of each column, segment after segment, by rising `key` inside one."""
    order = key.argsort(dim=0)
    return order.gather(0, segment.gather(0, order).argsort(dim=0, stable=True))

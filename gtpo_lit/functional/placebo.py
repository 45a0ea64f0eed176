"""Stand-ins for the entropies in the shares: without them no gain can be put down to entropy."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

ShareWeights = Literal["entropy", "shuffled", "random", "constant", "inverted"]


def placebo_entropy(
    entropy: Tensor, mask: Tensor, index: Tensor, kind: ShareWeights, *, seed: int
) -> tuple[Tensor, bool]:
    """What takes the place of the entropies, and whether the two sides swap their rules.

    Args:
        entropy: [B, T].
        mask: [B, T] bool.
        index: [B] number of each row's side of its group.
        kind: "entropy" as it is; "shuffled" among the alive members of a side at each position;
            "random" uniform numbers; "constant" ones; "inverted", where correct sequences get the
            inverse shares and wrong ones the proportional shares.
        seed: of the shuffle and the random numbers.

    Raises:
        ValueError: for an unknown kind.
    """
    if kind in ("entropy", "inverted"):
        return entropy, kind == "inverted"
    if kind == "constant":
        return torch.ones_like(entropy), False
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(entropy.shape, generator=generator, dtype=torch.float64).to(entropy.device)
    if kind == "random":
        return (1 - noise).to(entropy.dtype), False
    if kind != "shuffled":
        raise ValueError(f"share_weights must be one of {get_args(ShareWeights)}, got {kind!r}")
    # Rows that are not alive form a segment of their own, so that values move among the alive.
    segment = torch.where(mask, index[:, None], -1)
    plain = segment.argsort(dim=0, stable=True)
    order = noise.argsort(dim=0)
    mixed = order.gather(0, segment.gather(0, order).argsort(dim=0, stable=True))
    return torch.empty_like(entropy).scatter(0, plain, entropy.gather(0, mixed)), False

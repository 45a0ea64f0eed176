"""Which tokens get gradient: the most uncertain ones (arXiv 2506.01939, "forking tokens")."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def top_entropy_mask(entropy: Tensor, mask: Tensor, fraction: float) -> Tensor:
    """The ceil(fraction * tokens) tokens of highest entropy over everything passed.

    Args:
        entropy: [B, T].
        mask: [B, T] bool, the tokens to choose from.
        fraction: in (0, 1]. Ties are broken by (row, position), first come first.

    Returns:
        [B, T] bool, a subset of `mask`.

    Raises:
        ValueError: for a fraction outside (0, 1].
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction must be in (0, 1], got {fraction}")
    places = mask.flatten().nonzero().squeeze(1)
    # The small allowance undoes binary rounding, as in 0.1 * 30 = 3.0000000000000004.
    wanted = max(1, math.ceil(fraction * len(places) - 1e-9))
    order = entropy.flatten()[places].argsort(descending=True, stable=True)
    chosen = torch.zeros_like(mask).flatten()
    chosen[places[order[:wanted]]] = True
    return chosen.view_as(mask)

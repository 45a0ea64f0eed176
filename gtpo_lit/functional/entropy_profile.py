"""How a step's token entropies are spread: over values, over positions, over few tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def quantiles(ordered: Tensor, levels: Sequence[float]) -> list[float]:
    """Quantiles of values that are sorted already, linear between neighbours.

    Args:
        ordered: [N] ascending, N at least 1. `torch.quantile` takes 16 million values at most.
        levels: each in [0, 1]; level q lies at place q (N - 1).

    Example:
        >>> quantiles(torch.tensor([0.0, 1.0, 3.0]), [0.5, 0.75])
        [1.0, 2.0]
    """
    found = []
    for level in levels:
        place = level * (len(ordered) - 1)
        below = math.floor(place)
        low, high = (float(ordered[min(at, len(ordered) - 1)]) for at in (below, below + 1))
        found.append(low + (high - low) * (place - below))
    return found


def top_share(ordered: Tensor, fraction: float) -> float:
    """The share of the sum that the ceil(fraction N) largest values hold.

    With token entropies, the share of all uncertainty that sits in the "forking tokens" of arXiv
    2506.01939 (`fraction` 0.2).

    Args:
        ordered: [N] ascending, N at least 1, none negative.
        fraction: in (0, 1].

    Returns:
        The share; NaN if all values are 0.

    Example:
        >>> top_share(torch.tensor([1.0, 1.0, 1.0, 2.0, 5.0]), 0.2)
        0.5
    """
    # The small allowance undoes binary rounding, as in 0.1 * 30 = 3.0000000000000004.
    largest = max(1, math.ceil(fraction * len(ordered) - 1e-9))
    total = float(ordered.sum(dtype=torch.float64))
    top = float(ordered[-largest:].sum(dtype=torch.float64))
    return top / total if total != 0 else math.nan


def position_means(values: Tensor, mask: Tensor, parts: int) -> Tensor:
    """Means over the tokens of each of `parts` equal parts of their responses.

    Position t of a response that ends after n positions lies in part floor(t parts / n); positions
    count through holes of the mask, and n is that of the last true one. A response shorter than
    `parts` leaves some parts out.

    Args:
        values: [B, T].
        mask: [B, T] bool, tokens that count.
        parts: number of parts, at least 1.

    Returns:
        [parts] float64, one mean over all tokens of a part; NaN for a part without a token.

    Example:
        >>> values = torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 0.0, 0.0]])
        >>> mask = torch.tensor([[True] * 4, [True, True, False, False]])
        >>> position_means(values, mask, 2).tolist()
        [2.6666666666666665, 4.333333333333333]
    """
    place = torch.arange(mask.shape[1], device=mask.device)
    ends = (mask * (place + 1)).amax(dim=1, keepdim=True).clamp(min=1)
    part = (place * parts).div(ends, rounding_mode="floor")[mask]
    sums = values.new_zeros(parts, dtype=torch.float64)
    sums.index_add_(0, part, values[mask].double())
    return sums / torch.bincount(part, minlength=parts)

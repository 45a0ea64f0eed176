"""Sums, means and spreads over masks and over groups."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean of `values` where `mask` is true; 0 where nothing is.

    Example:
        >>> masked_mean(torch.tensor([1.0, 3.0, 9.0]), torch.tensor([True, True, False]))
        tensor(2.)
    """
    kept = values.masked_fill(~mask, 0.0)
    return kept.sum() / mask.sum().clamp(min=1)


def row_mean(values: Tensor, mask: Tensor) -> Tensor:
    """[B] means of each row of `values` [B, T] over its true positions; 0 for an empty row."""
    return values.masked_fill(~mask, 0.0).sum(dim=1) / mask.sum(dim=1).clamp(min=1)


def group_index(group: Tensor) -> tuple[Tensor, int]:
    """Dense numbers 0..n-1 for the ids in `group` [B], in whatever order they come, and n."""
    ids, index = torch.unique(group, return_inverse=True)
    return index, len(ids)


def segment_sum(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Sums of the rows of `values` [N, ...] by segment: [count, ...]."""
    out = values.new_zeros((count, *values.shape[1:]))
    return out.index_add(0, index, values)


def segment_min(values: Tensor, index: Tensor, count: int) -> Tensor:
    """Minima of the rows of `values` [N, ...] by segment; infinity for an empty one."""
    out = values.new_full((count, *values.shape[1:]), torch.inf)
    shape = (-1,) + (1,) * (values.ndim - 1)
    return out.scatter_reduce(0, index.view(shape).expand_as(values), values, "amin")


def segment_moments(
    values: Tensor, index: Tensor, count: int, *, keep: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Size, mean and standard deviation (ddof 1) of each segment, in float64.

    Values are shifted by their segment's least one first, so that equal values have exactly that
    mean and deviation 0. A segment with fewer than two values has deviation 0.

    Args:
        values: [N] numbers.
        index: [N] segment of each, 0..count-1.
        count: number of segments.
        keep: [N] bool, values that count; all if not given.

    Returns:
        Three [count] float64 tensors.
    """
    kept = torch.ones_like(index, dtype=torch.bool) if keep is None else keep
    least = segment_min(torch.where(kept, values.double(), torch.inf), index, count)
    least = torch.where(least.isfinite(), least, 0.0)
    shifted = torch.where(kept, values.double() - least[index], 0.0)
    size = segment_sum(kept.double(), index, count)
    mean = segment_sum(shifted, index, count) / size.clamp(min=1)
    deviation = torch.where(kept, shifted - mean[index], 0.0)
    variance = segment_sum(deviation.square(), index, count) / (size - 1).clamp(min=1)
    return size, least + mean, torch.where(size > 1, variance.sqrt(), 0.0)

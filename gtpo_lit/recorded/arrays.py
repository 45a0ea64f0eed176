"""Padded tensors as Arrow lists without padding, and back; every number to the bit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def list_array(values: Tensor, real: Tensor) -> Any:
    """[B, T] as an Arrow array of B lists: of each row the values where `real` [B, T] is true."""
    import pyarrow

    ends = real.sum(dim=1).cumsum(dim=0)
    offsets = torch.cat([ends.new_zeros(1), ends]).numpy()
    return pyarrow.LargeListArray.from_arrays(offsets, pyarrow.array(values[real].numpy()))


def list_lengths(column: Any) -> list[int]:
    """The length of each list; 0 for a null."""
    import pyarrow.compute

    return [length or 0 for length in pyarrow.compute.list_value_length(column).to_pylist()]


def real_places(column: Any, depth: int) -> Tensor:
    """[B, depth] bool: where right-padded lists hold a value."""
    return torch.arange(depth) < torch.tensor(list_lengths(column))[:, None]


def flat_tensor(column: Any) -> Tensor | None:
    """[B] numbers; None if the column holds a null."""
    if column.null_count:
        return None
    return torch.from_numpy(column.to_numpy(zero_copy_only=False).copy())


def padded(column: Any, depth: int, *, left: bool = False) -> Tensor | None:
    """[B, depth] of lists, with 0 on the right (or left) of each; None if there is a null."""
    if column.null_count:
        return None
    flat = flat_tensor(column.flatten())
    assert flat is not None, "a null inside a list"
    real = real_places(column, depth)
    real = real.flip(1) if left else real
    return torch.zeros(real.shape, dtype=flat.dtype).masked_scatter(real, flat)

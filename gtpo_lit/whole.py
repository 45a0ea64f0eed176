"""A tensor that is split over ranks, put together."""

from __future__ import annotations

from torch import Tensor


def whole(value: Tensor) -> Tensor:
    """All of `value` on every rank; the tensor itself where it is not split.

    A collective for one that is split: all ranks must call it, in the same order.
    """
    full = getattr(value, "full_tensor", None)
    return value if full is None else full()

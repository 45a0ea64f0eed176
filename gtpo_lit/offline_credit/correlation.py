"""Pearson's correlation."""

from __future__ import annotations

from torch import Tensor


def correlation(first: Tensor, second: Tensor) -> float | None:
    """Of two [N] tensors, in float64; None where one of them is constant, or N is below 2.

    >>> import torch
    >>> correlation(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([-2.0, -4.0, -8.0]))
    -1.0
    >>> correlation(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 3.0])) is None
    True
    """
    if len(first) < 2 or _constant(first) or _constant(second):
        return None
    x, y = (values.double() - values.double().mean() for values in (first, second))
    value = float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())
    return max(-1.0, min(1.0, value))


def _constant(values: Tensor) -> bool:
    return bool((values == values[0]).all())

"""Sums and counts of a step's loss metrics, reduced over micro-batches and ranks once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor

_EXTREMES = {"max": (torch.maximum, -math.inf), "min": (torch.minimum, math.inf)}


class Meters:
    """Collects what micro-batches report, without a synchronisation a micro-batch.

    Names that end in `max` or `min` reduce that way, `add` and the loss by sum, all other metrics
    by their mean over loss tokens.

    Attributes:
        last: metrics that are equal on all ranks, of which the newest value counts.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget everything; called at the end of each step."""
        self._weighted: dict[str, Tensor] = {}
        self._extreme: dict[str, Tensor] = {}
        self._sums: dict[str, Tensor] = {}
        self._weight = torch.zeros((), dtype=torch.float64)
        self._norms: list[Tensor] = []
        self.last: dict[str, float] = {}
        self._window = torch.zeros(())

    @property
    def last_loss(self) -> Tensor:
        """[] float32: sum of this rank's losses since the last optimiser step."""
        return self._window

    def update(self, metrics: Mapping[str, Tensor], *, weight: Tensor, loss: Tensor) -> None:
        """Add one micro-batch with `weight` loss tokens; `loss` is its part of the sum."""
        weight = weight.double()
        self._weight = self._weight.to(weight.device) + weight
        self._window = self._window.to(loss.device) + loss
        self.add("train/loss", loss)
        for name, value in metrics.items():
            key = f"train/{name}"
            if name.endswith(("max", "min")):
                # A rank with no loss token must still take part in the reduction.
                pick, nothing = _EXTREMES[name[-3:]]
                value = torch.where(weight > 0, value, nothing)
                self._extreme[key] = pick(self._extreme.get(key, value), value)
            else:
                part = torch.where(weight > 0, value.double() * weight, 0.0)
                self._weighted[key] = self._weighted.get(key, torch.zeros_like(part)) + part

    def add(self, name: str, value: Tensor) -> None:
        """Add to a metric that is a sum over micro-batches and ranks."""
        self._sums[name] = self._sums.get(name, torch.zeros_like(value)).double() + value

    def update_norm(self, norm: Tensor) -> None:
        """Record the gradient norm of one optimiser step."""
        self._norms.append(norm.detach())
        self._window = torch.zeros_like(self._window)

    def reduce(self, *, copies: int = 1) -> dict[str, float]:
        """The step's metrics over all ranks, then cleared.

        Losses are means over the step's optimiser steps, so that they do not grow with their
        number.

        Args:
            copies: ranks that met each sequence.
        """
        steps = max(1, len(self._norms)) * copies
        sums = {name: value / steps for name, value in sorted(self._sums.items())}
        weighted = dict(sorted(self._weighted.items()))
        totals = _all_reduce([*sums.values(), *weighted.values(), self._weight], "SUM")
        result = dict(zip(sums, totals, strict=False))
        count = totals[-1] if totals[-1] > 0 else 1.0
        means = totals[len(sums) : -1]
        result |= {name: mean / count for name, mean in zip(weighted, means, strict=True)}
        signs = {name: 1.0 if name.endswith("max") else -1.0 for name in sorted(self._extreme)}
        extremes = _all_reduce([self._extreme[name] * sign for name, sign in signs.items()], "MAX")
        found = zip(signs.items(), extremes, strict=True)
        result |= {name: value * sign for (name, sign), value in found if math.isfinite(value)}
        if self._norms:
            norms = torch.stack(self._norms)
            result["train/gradient/norm"] = float(norms.mean())
        result |= self.last
        self.clear()
        return result


def _all_reduce(values: list[Tensor], operation: str) -> list[float]:
    if not values:
        return []
    stacked = torch.stack([value.double() for value in values])
    if dist.is_initialized():
        dist.all_reduce(stacked, op=getattr(dist.ReduceOp, operation))
    return [float(value) for value in stacked]

"""Learning-rate schedules, counted in optimiser steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Factor on the optimiser's learning rate.

    Example:
        >>> warm = Schedule(kind="cosine", warmup_steps=2)
        >>> [round(warm.factor(step, total_steps=6), 3) for step in range(7)]
        [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]

    Args:
        kind: what follows the warm-up: the full rate, or half a cosine down to
            `final_fraction`.
        warmup_steps: optimiser steps of linear warm-up; the first step has 1/warmup_steps
            of the rate.
        final_fraction: what the cosine ends at, as a share of the full rate.
    """

    kind: Literal["constant", "cosine"] = "constant"
    warmup_steps: int = 0
    final_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Refuse impossible numbers by name.

        Raises:
            ValueError: if a field is out of its range.
        """
        if self.warmup_steps < 0:
            raise ValueError(f"schedule.warmup_steps must be at least 0, got {self.warmup_steps}")
        if not 0 <= self.final_fraction <= 1:
            raise ValueError(
                f"schedule.final_fraction must be in [0, 1], got {self.final_fraction}"
            )

    def factor(self, step: int, *, total_steps: int) -> float:
        """The factor for the optimiser step with this number, counted from 0."""
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        if self.kind == "constant":
            return 1.0
        decay = max(1, total_steps - self.warmup_steps)
        progress = min(1.0, (step - self.warmup_steps) / decay)
        cosine = 0.5 * (1 + math.cos(math.pi * progress))
        return self.final_fraction + (1 - self.final_fraction) * cosine

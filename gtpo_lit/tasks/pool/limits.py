"""What one answer may cost."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds on judging one answer.

    Args:
        seconds: wall-clock time, taken by the parent; the worker is then killed.
        memory_mb: address space beyond what the worker had before, in MiB. The kernel holds it on
            Linux; macOS ignores it.
    """

    seconds: float = 10.0
    memory_mb: int = 1024

    def __post_init__(self) -> None:
        """Raise `ValueError` for a bound that lets nothing through."""
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ValueError(f"limits.seconds must be positive and finite, got {self.seconds}")
        if self.memory_mb < 1:
            raise ValueError(f"limits.memory_mb must be at least 1, got {self.memory_mb}")

"""What came out of judging one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["scored", "timeout", "memory", "error", "died"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score of one answer, or why there is none."""

    status: Status
    """"scored"; or "timeout" (killed at the limit), "memory" (its bound was hit), "error" (the
    judge raised) or "died" (the process ended by itself)."""
    score: float = 0.0
    """0 unless it was scored."""
    detail: str = ""
    """The traceback of an error, or how the process died."""

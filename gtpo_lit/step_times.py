"""How long an RL step takes, by those before it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable


class StepTimes:
    """Estimates the rest of a step from the longest of the last few of its kind.

    Steps with a validation are a kind of their own, since that may take longer than all else.

    Args:
        recent: steps of each kind that count.
        clock: in seconds.
    """

    def __init__(self, recent: int = 3, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: dict[bool, deque[float]] = {
            kind: deque(maxlen=recent) for kind in (False, True)
        }
        self._began: float | None = None
        self._validates = False

    def begin(self, *, validates: bool) -> None:
        """A step begins."""
        self._began, self._validates = self._clock(), validates

    def end(self) -> None:
        """It has ended, if one had begun."""
        if self._began is not None:
            self._seconds[self._validates].append(self._clock() - self._began)

    def left(self) -> float | None:
        """Seconds until the step ends, at least 0; None outside steps or if nothing is known."""
        known = self._seconds[self._validates]
        if self._began is None or not known:
            return None
        return max(0.0, max(known) - (self._clock() - self._began))

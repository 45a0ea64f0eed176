"""Whether entropy, having fallen, rose again: where, how far, and how surely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gtpo_lit.evaluation.interval import LEVEL, Interval

Array = npt.NDArray[np.float64]

MOST_CORRELATION = 0.95
"""Noise that drifts more slowly than this cannot be told from a trend."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebound:
    """The fall and the rise of a smoothed curve; values have the curve's unit."""

    start: float
    """Value at the first step."""
    low_step: float
    """Where the curve is lowest."""
    low: float
    top_step: float
    """Where it is highest after the low; the low itself if it never rises."""
    top: float
    interval: Interval
    """95 % bootstrap interval of `height`."""
    fall_p: float
    """How often noise around a constant level falls at least as far."""
    rise_p: float
    """How often noise around a curve that never rises climbs at least as high."""

    @property
    def drop(self) -> float:
        """How far the curve fell."""
        return self.start - self.low

    @property
    def height(self) -> float:
        """How far it rose again."""
        return self.top - self.low

    @property
    def share(self) -> float:
        """`height` as a share of `drop`; NaN if the curve never fell."""
        return self.height / self.drop if self.drop > 0 else float("nan")

    @property
    def found(self) -> bool:
        """Whether both the fall and the rise are more than noise, at 5 % each."""
        return max(self.fall_p, self.rise_p) < 1 - LEVEL


def entropy_rebound(
    steps: Sequence[float],
    values: Sequence[float],
    *,
    window: int | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Rebound:
    """Find the fall and the rebound of an entropy curve (arXiv 2508.04349, entropy dynamics).

    The curve is smoothed by a centred moving mean. Its noise is taken as a first-order
    autoregression whose two numbers are read off the differences of neighbouring steps, where a
    slow trend leaves little. Noise of that kind is drawn around a constant level, around the
    nearest curve that never rises, and around the smoothed curve itself: the first tells how far
    noise alone falls, the second how high it climbs, the third gives the interval of the height
    (basic bootstrap, not below 0).

    Args:
        steps: N increasing RL steps.
        values: N finite values.
        window: steps in the moving mean, odd; about a tenth of N, at least 5, if not given.
        draws: noise curves drawn.
        seed: of these draws; the global random state is left alone.

    Raises:
        ValueError: for fewer than 8 steps, different lengths, steps that do not increase, values
            that are not finite, or a window that is even, below 3 or longer than the curve.

    >>> fall, rise = [1.0 - 0.05 * i for i in range(16)], [0.25 + 0.02 * i for i in range(24)]
    >>> found = entropy_rebound(range(40), fall + rise, window=3)
    >>> found.found, found.low_step, round(found.height, 2), round(found.share, 2)
    (True, 16.0, 0.44, 0.62)
    >>> entropy_rebound(range(40), [0.9**i for i in range(40)]).found
    False
    """
    step, curve = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
    _check(step, curve)
    size = len(curve)
    width = max(5, size // 10 | 1) if window is None else window
    if not (3 <= width <= size and width % 2):
        raise ValueError(f"window must be odd, from 3 to the {size} steps, got {width}")
    smoothed = moving_mean(curve[None], width)[0]
    low = int(smoothed.argmin())
    top = low + int(smoothed[low:].argmax())
    height = float(smoothed[top] - smoothed[low])
    noise = moving_mean(noise_like(curve, draws, seed), width)
    falls = noise[:, 0] - noise.min(axis=1)
    climbs = heights(never_rising(smoothed) + noise)
    again = heights(smoothed + noise)
    tail = (1 - LEVEL) / 2
    ends = 2 * height - np.quantile(again, [1 - tail, tail])
    return Rebound(
        start=float(smoothed[0]),
        low_step=float(step[low]),
        low=float(smoothed[low]),
        top_step=float(step[top]),
        top=float(smoothed[top]),
        interval=Interval(low=max(0.0, float(ends[0])), high=max(0.0, float(ends[1]))),
        fall_p=_share(falls, float(smoothed[0] - smoothed[low])),
        rise_p=_share(climbs, height),
    )


def moving_mean(curves: Array, width: int) -> Array:
    """Centred mean over `width` steps of each row; at the ends over those that there are.

    >>> moving_mean(np.array([[0.0, 3.0, 6.0, 0.0]]), 3)
    array([[1.5, 3. , 3. , 3. ]])
    """
    size, half = curves.shape[1], width // 2
    sums = np.concatenate([np.zeros((len(curves), 1)), np.cumsum(curves, axis=1)], axis=1)
    place = np.arange(size)
    first, last = np.maximum(0, place - half), np.minimum(size, place + half + 1)
    means: Array = (sums[:, last] - sums[:, first]) / (last - first)
    return means


def never_rising(curve: Array) -> Array:
    """The nearest curve, in squares, that never rises (pool adjacent violators).

    >>> never_rising(np.array([3.0, 1.0, 2.0, 0.0]))
    array([3. , 1.5, 1.5, 0. ])
    """
    sums: list[float] = []
    counts: list[int] = []
    for value in curve:
        total, count = float(value), 1
        while sums and total / count > sums[-1] / counts[-1]:
            total, count = total + sums.pop(), count + counts.pop()
        sums.append(total)
        counts.append(count)
    return np.repeat(np.array(sums) / np.array(counts), counts)


def heights(curves: Array) -> Array:
    """How far each row rises after its lowest point.

    >>> heights(np.array([[2.0, 0.0, 1.0, 0.5], [3.0, 2.0, 1.0, 0.0]]))
    array([1., 0.])
    """
    after = np.arange(curves.shape[1]) >= curves.argmin(axis=1)[:, None]
    found: Array = np.where(after, curves, -np.inf).max(axis=1) - curves.min(axis=1)
    return found


def noise_like(curve: Array, draws: int, seed: int) -> Array:
    """[draws, N] stationary noise with the spread and the correlation of `curve`'s own."""
    correlation, spread = noise_of(curve)
    random = np.random.default_rng(seed)
    noise = random.standard_normal((draws, len(curve))) * spread
    shock = np.sqrt(1 - correlation**2)
    for place in range(1, len(curve)):
        noise[:, place] = correlation * noise[:, place - 1] + shock * noise[:, place]
    return noise


def noise_of(curve: Array) -> tuple[float, float]:
    """Correlation of neighbours and standard deviation of the noise in `curve`.

    With x an autoregression of correlation r and deviation s, the differences of neighbours have
    variance 2 s^2 (1 - r) and correlation -(1 - r) / 2.
    """
    steps = np.diff(curve)
    steps = steps - steps.mean()
    variance = float((steps**2).mean())
    if variance == 0:
        return 0.0, 0.0
    neighbours = float((steps[1:] * steps[:-1]).sum()) / len(steps)
    correlation = min(max(1 + 2 * neighbours / variance, 0.0), MOST_CORRELATION)
    return correlation, float(np.sqrt(variance / (2 * (1 - correlation))))


def _share(drawn: Array, seen: float) -> float:
    # A curve without noise still equals itself only to rounding.
    return float((1 + (drawn >= seen - 1e-12).sum()) / (1 + len(drawn)))


def _check(step: Array, curve: Array) -> None:
    if step.shape != curve.shape or step.ndim != 1:
        raise ValueError(f"steps and values have shapes {step.shape} and {curve.shape}")
    if len(step) < 8:
        raise ValueError(f"a rebound needs 8 steps or more, got {len(step)}")
    if not (np.isfinite(step).all() and (np.diff(step) > 0).all()):
        raise ValueError("steps must be finite and increase")
    if not np.isfinite(curve).all():
        raise ValueError("values must be finite; leave steps without entropy out")

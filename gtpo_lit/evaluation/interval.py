"""Intervals from resampling problems: how much a figure owes to which problems were in the set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

LEVEL = 0.95
_CHUNK = 1 << 22
"""Counts that are held at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Ends of a 95 % interval."""

    low: float
    high: float


def problem_bootstrap(
    numerator: Array, denominator: Array, *, draws: int = 2000, seed: int = 0
) -> list[Interval]:
    """Percentile intervals of ratios of sums over problems, by resampling whole problems.

    Each draw takes as many problems as there are, with replacement, all samples of a problem
    staying together; the samples of one problem are not independent, those of different problems
    are. All columns see the same draws. The interval runs from the 2.5th to the 97.5th percentile
    (linear between draws) of ``sum(numerator) / sum(denominator)``.

    Args:
        numerator: [P, M], M figures of P problems.
        denominator: [P, M], positive: 1 for a mean over problems.
        draws: number of bootstrap draws.
        seed: of the draws; the global random state is left alone.

    Returns:
        M intervals; both ends NaN without problems, and equal with one.

    Raises:
        ValueError: if `draws` is below 1 or the shapes differ.
    """
    if draws < 1:
        raise ValueError(f"draws={draws} is below 1")
    if numerator.ndim != 2 or numerator.shape != denominator.shape:
        raise ValueError(f"shapes {numerator.shape} and {denominator.shape} are not one [P, M]")
    problems, figures = numerator.shape
    if problems == 0:
        return [Interval(low=np.nan, high=np.nan)] * figures
    random = np.random.default_rng(seed)
    ratios = np.empty((draws, figures))
    chunk = max(1, _CHUNK // problems)
    for start in range(0, draws, chunk):
        size = min(chunk, draws - start)
        drawn = random.integers(problems, size=(size, problems))
        # How often each problem was drawn, row by row: one product then sums every figure.
        flat = drawn + problems * np.arange(size)[:, None]
        counts = np.bincount(flat.ravel(), minlength=size * problems).reshape(size, problems)
        weights = counts.astype(np.float64)
        ratios[start : start + size] = (weights @ numerator) / (weights @ denominator)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail], axis=0)
    return [Interval(low=float(a), high=float(b)) for a, b in zip(low, high, strict=True)]

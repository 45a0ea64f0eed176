"""Medians and quartiles of measurements that were made in rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Measurement(NamedTuple):
    """How long one variant took in one round."""

    part: str
    """What was measured; only variants of one part are compared."""
    round: int
    variant: str
    seconds: float
    """Wall clock."""
    cpu_seconds: float
    """Of this process; on an idle core the two are alike."""


def seconds_of(
    measurements: Sequence[Measurement], part: str
) -> dict[str, npt.NDArray[np.float64]]:
    """[rounds] seconds of every variant of a part, in order of rounds, first variant first.

    Raises:
        ValueError: if a variant was not measured in every round.
    """
    rounds: dict[int, dict[str, float]] = {}
    for one in measurements:
        if one.part == part:
            rounds.setdefault(one.round, {})[one.variant] = one.seconds
    order = list(dict.fromkeys(one.variant for one in measurements if one.part == part))
    for number, seconds in rounds.items():
        if set(seconds) != set(order):
            raise ValueError(f"{part}: round {number} lacks {sorted(set(order) - set(seconds))}")
    return {name: np.array([rounds[number][name] for number in sorted(rounds)]) for name in order}


def extra_percent(
    seconds: npt.NDArray[np.float64], baseline: npt.NDArray[np.float64]
) -> tuple[float, float, float]:
    """Median, first and third quartile of ``100 (seconds / baseline - 1)`` over rounds.

    >>> extra_percent(np.array([1.1, 2.4, 3.0]), np.array([1.0, 2.0, 3.0]))
    (10.0, 5.0, 15.0)
    """
    extra = 100 * (seconds / baseline - 1)
    first, median, third = (round(float(q), 10) for q in np.percentile(extra, (25, 50, 75)))
    return median, first, third


def table(measurements: Sequence[Measurement]) -> str:
    """A Markdown table: each part's variants against the first variant of that part."""
    lines = [
        "| what | variant | rounds | median, s | over the first, % | quartiles, % |",
        "|---|---|---|---|---|---|",
    ]
    for part in dict.fromkeys(one.part for one in measurements):
        found = seconds_of(measurements, part)
        baseline = next(iter(found.values()))
        for place, (variant, seconds) in enumerate(found.items()):
            median, first, third = extra_percent(seconds, baseline)
            extra = f"{median:+.2f} | {first:+.2f} to {third:+.2f}" if place else "- | -"
            lines.append(
                f"| {part} | {variant} | {len(seconds)} | {np.median(seconds):.4f} | {extra} |"
            )
    return "\n".join(lines)

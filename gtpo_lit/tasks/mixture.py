"""Several problem sets as one, by weight."""

from __future__ import annotations

import math
from fractions import Fraction

from gtpo_lit.tasks.source import ProblemSource, walk
from gtpo_lit.types import Problem


class MixtureSource(ProblemSource):
    """Problems of several sets, in shares that weights decide.

    The mixture is a finite list of `size` places. Each set gets its share of them, rounded so that
    they add up, and evenly spread. Its places walk through it: pass after pass, each in an order
    of its own, so that no row is used a second time before all others were used. A set with fewer
    rows than places repeats; of one with more rows some are left out. Without weights and size
    every row of every set is used exactly once.

    A problem keeps its id and source, and a repeated one is the same problem twice.
    """

    def __init__(
        self,
        sources: dict[str, ProblemSource],
        weights: dict[str, float] | None = None,
        size: int | None = None,
        seed: int = 0,
        name: str = "mixture",
    ) -> None:
        """Choose the sets.

        Args:
            sources: the sets, by a name for messages and weights.
            weights: the share of each set, in any unit; its number of problems if not given.
            size: number of places; the number of problems of all sets if not given.
            seed: decides the order in which each set is walked.
            name: short name of the mixture.

        Raises:
            ValueError: if there is no set, if two have the same name inside, if a weight is
                missing, unknown or not positive, or if `size` is out of range.
        """
        if not sources:
            raise ValueError("sources: a mixture needs at least one set")
        if weights is not None:
            _check_weights(weights, sources)
        if size is not None and size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        inner = [source.name for source in sources.values()]
        if repeated := sorted({found for found in inner if inner.count(found) > 1}):
            raise ValueError(
                f"sources: more than one set has the name {repeated[0]!r}; their problems would "
                "share ids"
            )
        self.sources = sources
        self.weights = weights
        self.seed = seed
        self.name = name
        self._size = size
        self._places: list[tuple[str, int]] | None = None

    def __len__(self) -> int:
        """Number of places. Reads the sets."""
        return len(self._layout())

    def problem(self, index: int) -> Problem:
        """The problem at place `index`."""
        self.check_index(index)
        name, row = self._layout()[index]
        return self.sources[name].problem(row)

    def note(self) -> str:
        """The places of each set, and what the sets say themselves."""
        held = [name for name, _ in self._layout()]
        parts = [
            f"{name}: {held.count(name)} places for {len(source)} problems"
            + (f" ({note})" if (note := source.note()) else "")
            for name, source in self.sources.items()
        ]
        return "; ".join(parts)

    def _layout(self) -> list[tuple[str, int]]:
        if self._places is None:
            rows = {name: len(source) for name, source in self.sources.items()}
            counts = share_out(self._size or sum(rows.values()), self.weights or rows)
            if empty := [name for name, count in counts.items() if not count]:
                raise ValueError(
                    f"weights: {empty[0]!r} gets none of {sum(counts.values())} places; "
                    "raise its weight or the size"
                )
            orders = {
                name: iter(walk(rows[name], 0, count, self.seed)) for name, count in counts.items()
            }
            self._places = [(name, next(orders[name])) for name in interleave(counts)]
        return self._places


def _check_weights(weights: dict[str, float], sources: dict[str, ProblemSource]) -> None:
    if set(weights) != set(sources):
        raise ValueError(
            f"weights: must be for the sets {', '.join(sources)}, got {', '.join(weights)}"
        )
    for name, weight in weights.items():
        if not 0 < weight < math.inf:
            raise ValueError(f"weights: {name!r} must be positive, got {weight}")


def share_out(size: int, weights: dict[str, float] | dict[str, int]) -> dict[str, int]:
    """`size` places in the proportion of `weights`, by the method of largest remainders.

    Among equal remainders the first name wins.

    >>> share_out(10, {"a": 1, "b": 2}), share_out(3, {"a": 1, "b": 1})
    ({'a': 3, 'b': 7}, {'a': 2, 'b': 1})
    """
    total = sum(Fraction(weight) for weight in weights.values())
    exact = {name: size * Fraction(weight) / total for name, weight in weights.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_remainder[: size - sum(counts.values())]:
        counts[name] += 1
    return counts


def interleave(counts: dict[str, int]) -> list[str]:
    """Each name as often as its count says, evenly spread: its k-th at (k + 1/2) / count.

    >>> "".join(interleave({"a": 2, "b": 6}))
    'babbbabb'
    """
    at = [
        (Fraction(2 * place + 1, 2 * count), order, name)
        for order, (name, count) in enumerate(counts.items())
        for place in range(count)
    ]
    return [name for _, _, name in sorted(at)]

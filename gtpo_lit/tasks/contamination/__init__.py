"""Finds training problems that share long stretches of words with evaluation problems.

The usual sign is a shared run of 13 words (Brown et al. 2020, arXiv 2005.14165, Appendix C). Words
are runs of letters or of digits, without case; LaTeX commands count as words, and spacing and
signs do not count. Where a question is shorter than that, all of it must be the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gtpo_lit.tasks.source import ProblemSource
from gtpo_lit.types import Problem

DEFAULT_N = 13
MOST_SHARED = 20
"""A stretch in more evaluation problems than this is a turn of phrase, and no sign of a copy."""

_WORD = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A training problem and an evaluation problem that share at least one stretch."""

    evaluation: Problem
    train: Problem
    stretches: int
    """Number of stretches of the evaluation problem that the training problem holds."""
    coverage: float
    """That number as a share of all stretches of the evaluation problem, in (0, 1]."""
    example: str
    """One of them."""


def words(text: str) -> list[str]:
    r"""The words of a text.

    >>> words(r"Find $\frac{1}{2}x$ of 10,000.")
    ['find', 'frac', '1', '2', 'x', 'of', '10', '000']
    """
    return _WORD.findall(text.casefold())


def stretches(text: str, n: int) -> list[str]:
    """Every run of `n` words, in order; the whole of a shorter text, marked as whole.

    >>> stretches("a b c d", 3), stretches("a b", 3), stretches("?", 3)
    (['a b c', 'b c d'], ['=a b'], [])
    """
    found = words(text)
    if 0 < len(found) < n:
        return ["=" + " ".join(found)]
    return [" ".join(found[at : at + n]) for at in range(len(found) - n + 1)]


def find_contamination(
    train: ProblemSource,
    evaluation: Mapping[str, ProblemSource],
    n: int = DEFAULT_N,
    most_shared: int = MOST_SHARED,
) -> list[Hit]:
    """The pairs of training and evaluation problems that share a stretch of `n` words.

    Time and memory grow with the sum of the sizes of the sets, not with their product.

    Args:
        train: the training set.
        evaluation: the evaluation sets by name.
        n: words of a stretch, at least 2.
        most_shared: stretches that more evaluation problems than this have are ignored.

    Returns:
        The hits, those with the highest coverage first, then in the order of the sets.

    Raises:
        ValueError: if `n` or `most_shared` is out of range.
    """
    if n < 2:
        raise ValueError(f"n must be at least 2, got {n}")
    if most_shared < 1:
        raise ValueError(f"most_shared must be at least 1, got {most_shared}")
    problems = [problem for source in evaluation.values() for problem in _all(source)]
    holders: dict[str, list[int]] = {}
    sizes: list[int] = []
    for place, problem in enumerate(problems):
        runs = set(stretches(problem.question, n))
        sizes.append(len(runs))
        for run in runs:
            holders.setdefault(run, []).append(place)
    holders = {run: places for run, places in holders.items() if len(places) <= most_shared}
    hits = []
    for problem in _all(train):
        shared = [run for run in dict.fromkeys(stretches(problem.question, n)) if run in holders]
        counts = Counter(place for run in shared for place in holders[run])
        for place, count in counts.items():
            example = next(run for run in shared if place in holders[run])
            hits.append(
                Hit(
                    evaluation=problems[place],
                    train=problem,
                    stretches=count,
                    coverage=count / sizes[place],
                    example=example.removeprefix("="),
                )
            )
    return sorted(hits, key=lambda hit: -hit.coverage)


def _all(source: ProblemSource) -> Iterator[Problem]:
    return (source.problem(index) for index in range(len(source)))

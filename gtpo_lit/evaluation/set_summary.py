"""The figures of one problem set: each problem once, whatever rank it was sampled on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gtpo_lit.evaluation.estimates import best_table, maj_at_k, pass_at_k
from gtpo_lit.evaluation.interval import Interval, problem_bootstrap
from gtpo_lit.evaluation.outcome import ProblemOutcome

Array = npt.NDArray[np.float64]
Columns = dict[str, tuple[Array, Array]]
"""By figure, [P] numerators and [P] denominators; the figure is the ratio of their sums."""


@dataclass(frozen=True, kw_only=True)
class SetSummary:
    """Figures of a set, from all samples of all its problems."""

    problems: int
    samples: int
    """Of a problem; the least number where problems have different ones."""
    values: Mapping[str, float]
    """By figure, such as "pass@4", "length/mean" or "reward/math/timeouts", which is a count."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % intervals by figure; empty if none were asked for."""


def powers_of_two(n: int) -> list[int]:
    """1, 2, 4 and so on, and `n` itself at the end; nothing for 0.

    >>> powers_of_two(1), powers_of_two(8), powers_of_two(12)
    ([1], [1, 2, 4, 8], [1, 2, 4, 8, 12])
    """
    powers = [2**power for power in range(n.bit_length())]
    return powers if not powers or powers[-1] == n else [*powers, n]


def summarise(
    outcomes: Iterable[ProblemOutcome],
    *,
    k: Sequence[int] | None = None,
    draws: int = 0,
    seed: int = 0,
) -> SetSummary:
    """The figures of one set.

    A problem that comes twice, as from a sampler that evens ranks out, counts once. Figures with a
    k that some problem has too few samples for are left out, and everything is for an empty set.
    docs/evaluation.md defines each figure.

    Args:
        outcomes: of the problems, in any order; the result is the same to the last digit.
        k: the values of k; None is `powers_of_two` up to the samples of a problem.
        draws: bootstrap draws for the intervals; 0 makes none.
        seed: of these draws.
    """
    by_id: dict[str, ProblemOutcome] = {}
    for outcome in outcomes:
        if outcome.correct:
            by_id.setdefault(outcome.id, outcome)
    # Sums in one order do not depend on how problems were spread over ranks.
    every = [by_id[name] for name in sorted(by_id)]
    if not every:
        return SetSummary(problems=0, samples=0, values={})
    drawn = {len(outcome.correct) for outcome in every}
    least = min(drawn)
    # Where problems have different numbers of samples, the least of them is no figure of interest.
    known = [each for each in powers_of_two(least) if len(drawn) == 1 or each.bit_count() == 1]
    columns = {
        **_at_k(every, [each for each in (k or known) if each <= least], least),
        **_sample_means(every),
        **_diversity(every),
    }
    values = {
        name: float(above.sum()) / float(below.sum()) for name, (above, below) in columns.items()
    }
    values |= _incidents(every)
    intervals: dict[str, Interval] = {}
    if draws:
        numerator, denominator = (
            np.stack(part, axis=1) for part in zip(*columns.values(), strict=True)
        )
        found = problem_bootstrap(numerator, denominator, draws=draws, seed=seed)
        intervals = dict(zip(columns, found, strict=True))
    return SetSummary(problems=len(every), samples=least, values=values, intervals=intervals)


def _at_k(every: Sequence[ProblemOutcome], ks: Sequence[int], least: int) -> Columns:
    ones = np.ones(len(every))
    drawn = np.array([len(outcome.correct) for outcome in every])
    right = np.array([sum(outcome.correct) for outcome in every])
    columns = {f"pass@{k}": (np.asarray(pass_at_k(drawn, right, k)), ones) for k in ks}
    columns[f"avg@{least}"] = (right / drawn, ones)
    voting = [(outcome.votes, outcome.correct) for outcome in every if outcome.votes is not None]
    if len(voting) == len(every):
        for k in ks:
            majority = [_block_majority(votes, correct, k) for votes, correct in voting]
            columns[f"maj@{k}"] = (np.array(majority), ones)
    scores = [np.array(outcome.correct, dtype=np.float64) for outcome in every]
    for k in ks:
        if k > 1:
            columns[f"best@{k}"] = (best_table(scores, k), ones)
    return columns


def _block_majority(votes: Sequence[int | None], correct: Sequence[bool], k: int) -> float:
    """Mean of `maj_at_k` over the n // k blocks of k samples that follow each other."""
    starts = range(0, len(votes) - k + 1, k)
    return float(np.mean([maj_at_k(votes[s : s + k], correct[s : s + k], k) for s in starts]))


def _sample_means(every: Sequence[ProblemOutcome]) -> Columns:
    drawn = np.array([len(outcome.correct) for outcome in every], dtype=np.float64)
    sums = {
        "reward/mean": [float(sum(outcome.reward)) for outcome in every],
        "length/mean": [sum(outcome.length) for outcome in every],
        "truncated_fraction": [sum(outcome.truncated) for outcome in every],
    }
    terms = list(dict.fromkeys(name for outcome in every for name in outcome.terms))
    for name in terms if len(terms) > 1 else ():
        sums[f"reward/{name}/mean"] = [outcome.terms.get(name, 0.0) for outcome in every]
    if all(outcome.votes is not None for outcome in every):
        sums["answered_fraction"] = [
            sum(vote is not None for vote in outcome.votes or ()) for outcome in every
        ]
    return {name: (np.array(values, dtype=np.float64), drawn) for name, values in sums.items()}


def _incidents(every: Sequence[ProblemOutcome]) -> dict[str, float]:
    kinds = dict.fromkeys(name for outcome in every for name in outcome.incidents)
    return {
        f"reward/{name}": float(sum(outcome.incidents.get(name, 0) for outcome in every))
        for name in kinds
    }


def _diversity(every: Sequence[ProblemOutcome]) -> Columns:
    means: dict[str, list[float]] = {
        "diversity/paths": [outcome.paths for outcome in every],
        "diversity/correct_paths": [outcome.correct_paths for outcome in every],
        "diversity/distinct_1": [outcome.distinct[0] for outcome in every],
        "diversity/distinct_2": [outcome.distinct[1] for outcome in every],
    }
    if all(outcome.votes is not None for outcome in every):
        means["diversity/answers"] = [len(set(o.votes or ()) - {None}) for o in every]
    ones = np.ones(len(every))
    return {name: (np.array(values, dtype=np.float64), ones) for name, values in means.items()}

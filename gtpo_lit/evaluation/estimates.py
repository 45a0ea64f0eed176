"""Estimates for single problems: pass@k, avg@k, maj@k and verl's best@k.

Everything here is plain float64 arithmetic on counts and scores; nothing is fitted or trained.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt


def pass_at_k(n: npt.ArrayLike, c: npt.ArrayLike, k: int) -> float | npt.NDArray[np.float64]:
    """Chance that at least one of `k` samples is right, without bias.

    ``1 - C(n - c, k) / C(n, k)``, the estimator of arXiv 2107.03374 (Eq. 1), from exact integers
    and rounded once. The simpler ``1 - (1 - c/n)^k`` is biased.

    Args:
        n: samples drawn for each problem; an int, or a sequence of any shape.
        c: how many of them are right; broadcast against `n`.
        k: number of samples that a user would draw, at least 1.

    Returns:
        A float for two ints, else an array. Where `k` exceeds `n` there is no estimate, and the
        value is NaN whatever `c` is.

    Raises:
        ValueError: if `k` is below 1, a count is not whole, or `c` is not within 0 to `n`.

    >>> pass_at_k(4, 1, 2)
    0.5
    >>> pass_at_k([4, 10], [1, 3], 4).round(4).tolist()
    [1.0, 0.8333]
    >>> pass_at_k(2, 0, 5)
    nan
    """
    _check_k(k)
    total, right = np.broadcast_arrays(_whole("n", n), _whole("c", c))
    if np.any((right < 0) | (right > total)):
        where = np.argmax((right < 0) | (right > total))
        raise ValueError(
            f"c={int(right.flat[where])} is not within 0 and n={int(total.flat[where])}"
        )
    values = np.array(
        [_pass_at_k(int(a), int(b), k) for a, b in zip(total.flat, right.flat, strict=True)],
        dtype=np.float64,
    ).reshape(total.shape)
    return float(values) if values.ndim == 0 else values


def _pass_at_k(n: int, c: int, k: int) -> float:
    if k > n:
        return math.nan
    every = math.comb(n, k)
    return (every - math.comb(n - c, k)) / every


def avg_at_k(scores: npt.ArrayLike, k: int | None = None) -> float:
    """Mean score of the first `k` samples of each problem, averaged over problems.

    Args:
        scores: [problems, samples] or [samples].
        k: samples used of each problem; all of them if None.

    Returns:
        The mean; NaN if `k` exceeds the number of samples or there is no problem.

    Raises:
        ValueError: if `k` is below 1 or `scores` has another shape.

    >>> avg_at_k([[1, 0, 0, 1], [1, 1, 0, 0]], k=2)
    0.75
    """
    table = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    if table.ndim != 2:
        raise ValueError(f"scores has shape {table.shape}, not [problems, samples]")
    k = table.shape[1] if k is None else k
    if k != 0:
        _check_k(k)
    if k > table.shape[1] or table.size == 0:
        return math.nan
    return float(table[:, :k].mean(axis=1).mean())


def maj_at_k(answers: Sequence[Hashable | None], correct: Sequence[bool], k: int) -> float:
    """Whether the most common answer among the first `k` samples of one problem is right.

    Samples without an answer (None) cast no vote. Tie rule: of the answers with the most votes,
    the one that was sampled first wins, so that the result is a function of the sample order
    alone. Without any vote the problem counts as wrong.

    Args:
        answers: the extracted answer of each sample, in sample order; equal ones are one vote.
        correct: whether each sample is right, in the same order.
        k: number of samples that vote.

    Returns:
        1.0 or 0.0; NaN if `k` exceeds the number of samples.

    Raises:
        ValueError: if `k` is below 1 or the two lengths differ.

    >>> maj_at_k(["7", "8", "8", "7"], [True, False, False, True], k=3)
    0.0
    >>> maj_at_k(["7", "8", "8", "7"], [True, False, False, True], k=4)
    1.0
    """
    _check_k(k)
    if len(answers) != len(correct):
        raise ValueError(f"{len(answers)} answers for {len(correct)} values of correct")
    if k > len(answers):
        return math.nan
    votes: dict[Hashable, int] = {}
    for answer in answers[:k]:
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
    if not votes:
        return 0.0
    # A dict keeps the order of first votes and `max` returns the first of equals.
    winner = max(votes, key=lambda answer: votes[answer])
    return float(correct[list(answers).index(winner)])


def best_at_k(
    scores: npt.ArrayLike, k: int, *, draws: int = 1000, seed: int = 42
) -> tuple[float, float]:
    """Bootstrap of the best of `k` samples of one problem, as verl reports ``best@k``.

    Each draw takes `k` scores **with replacement** and keeps the largest. That makes it smaller
    than `pass_at_k` on 0/1 scores: one right in four gives about ``1 - (3/4)^4 = 0.684`` at
    ``k = 4``, where the unbiased value is 1. Use it to compare with verl's logs only.

    Args:
        scores: [samples].
        k: size of each draw; may exceed the number of samples.
        draws: number of bootstrap draws.
        seed: of the draws; the global random state is left alone.

    Returns:
        Mean and standard deviation (ddof 0) over draws; both NaN without scores.

    Raises:
        ValueError: if `k` or `draws` is below 1, or `scores` is not one-dimensional.
    """
    _check_k(k)
    if draws < 1:
        raise ValueError(f"draws={draws} is below 1")
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"scores has shape {values.shape}, not [samples]")
    if values.size == 0:
        return math.nan, math.nan
    best = values[_best_draws(values.size, k, draws, seed)].max(axis=1)
    return float(best.mean()), float(best.std())


def best_table(
    scores: Sequence[npt.NDArray[np.float64]], k: int, *, draws: int = 1000, seed: int = 42
) -> npt.NDArray[np.float64]:
    """The means of `best_at_k` for many problems, [P] float64.

    As in verl, every problem's draws start from the same seed, so those with equally many samples
    share their draws.

    Args:
        scores: of each problem, [samples]; at least one sample.
        k: size of each draw.
        draws: number of bootstrap draws.
        seed: of the draws.
    """
    _check_k(k)
    shared = {size: _best_draws(size, k, draws, seed) for size in {one.size for one in scores}}
    return np.array([one[shared[one.size]].max(axis=1).mean() for one in scores])


def _best_draws(size: int, k: int, draws: int, seed: int) -> npt.NDArray[np.int64]:
    # One call gives what `draws` calls of `choice(size, k)` in a row give, which verl makes.
    return np.random.RandomState(seed).choice(size, size=(draws, k)).astype(np.int64)


def _check_k(k: int) -> None:
    if isinstance(k, bool) or k != int(k) or k < 1:
        raise ValueError(f"k={k} is not a whole number of at least 1")


def _whole(name: str, counts: npt.ArrayLike) -> npt.NDArray[np.int64]:
    array = np.asarray(counts)
    whole = array.astype(np.int64)
    if np.any(whole != array):
        raise ValueError(f"{name}={counts!r} holds a count that is not whole")
    return whole

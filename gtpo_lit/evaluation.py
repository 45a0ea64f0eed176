"""Numbers that summarise several samples a problem."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased chance that one of k samples is right, from n samples of which c are right.

    1 - C(n - c, k) / C(n, k) in exact integer arithmetic (Chen et al., arXiv 2107.03374, Eq. 1).

    Args:
        n: samples drawn.
        c: how many of them are right, in [0, n].
        k: at least 1; k > n cannot be estimated and gives NaN.

    Raises:
        ValueError: for counts out of range.

    Example:
        >>> pass_at_k(4, 1, 2), pass_at_k(10, 3, 5), pass_at_k(2, 0, 5)
        (0.5, 0.9166666666666666, nan)
    """
    if n < 0 or not 0 <= c <= n:
        raise ValueError(f"need 0 <= c <= n, got n = {n}, c = {c}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    if k > n:
        return math.nan
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """Mean of `pass_at_k` over problems given as (n, c); NaN if any has fewer than k samples."""
    if not counts:
        return math.nan
    return math.fsum(pass_at_k(n, c, k) for n, c in counts) / len(counts)


def majority_answer(answers: Sequence[str | None]) -> str | None:
    """The most frequent answer; ties go to the one that came first; None never votes.

    Example:
        >>> majority_answer(["7", "5", None, "5", "7"])
        '7'
    """
    votes: dict[str, int] = {}
    for answer in answers:
        if answer is not None:
            votes[answer] = votes.get(answer, 0) + 1
    return max(votes, key=lambda answer: votes[answer]) if votes else None


def bootstrap_best_at_k(
    scores: Sequence[float], k: int, *, draws: int = 1000, seed: int = 0
) -> float:
    """Mean best of k scores drawn with replacement, as verl prints `best@k`.

    With replacement, a problem solved once in four is not solved for certain at k = 4; this is not
    pass@k.

    Args:
        scores: of one problem's samples, at least one.
        k: how many are drawn.
        draws: bootstrap repetitions.
        seed: of the drawing.
    """
    generator = random.Random(seed)
    return math.fsum(max(generator.choices(scores, k=k)) for _ in range(draws)) / draws

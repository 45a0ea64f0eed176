"""How much the samples of one problem differ: solution paths and n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?", re.ASCII)
_WORD = re.compile(r"\w+")


def solution_path(text: str) -> tuple[str, ...]:
    """The way that a response takes: the numbers it writes, in order.

    Thousands commas are left out, and a number that follows itself counts once, so that saying a
    result again is no new step. A response without any number is its words, in lower case. The
    wording around the numbers does not matter; the same steps in another order are another path.

    >>> solution_path("3 + 4 = 7, so 7 + 1,000 = 1007.")
    ('3', '4', '7', '1000', '1007')
    >>> solution_path("No idea!")
    ('no', 'idea')
    """
    steps = [number.replace(",", "") for number in _NUMBER.findall(text)]
    if not steps:
        return tuple(_WORD.findall(text.lower()))
    return tuple(step for at, step in enumerate(steps) if at == 0 or step != steps[at - 1])


def distinct_paths(texts: Iterable[str]) -> int:
    """Number of different solution paths among responses.

    >>> distinct_paths(["2+2=4", "2 + 2 gives 4", "4"])
    2
    """
    return len({solution_path(text) for text in texts})


def distinct_n(token_ids: Iterable[Sequence[int]], n: int) -> float:
    """Different n-grams over all n-grams of a problem's samples (arXiv 1510.03055, section 5.4).

    Falls with the number of samples and with their length, so compare it at equal ones.

    Args:
        token_ids: tokens of each sample; no n-gram spans two samples.
        n: tokens of an n-gram.

    Returns:
        A share in (0, 1]; 0 where no sample has n tokens.

    Raises:
        ValueError: if `n` is below 1.

    >>> distinct_n([(1, 2, 1), (1, 2)], 1), distinct_n([(1, 2, 1), (1, 2)], 2)
    (0.4, 0.6666666666666666)
    """
    if n < 1:
        raise ValueError(f"n={n} is below 1")
    windows: list[npt.NDArray[np.int64]] = [
        np.lib.stride_tricks.sliding_window_view(np.asarray(ids, dtype=np.int64), n)
        for ids in token_ids
        if len(ids) >= n
    ]
    if not windows:
        return 0.0
    grams = np.concatenate(windows)
    order = np.lexsort(grams.T)
    grams = grams[order]
    changes = np.any(grams[1:] != grams[:-1], axis=1)
    return float(1 + changes.sum()) / len(grams)

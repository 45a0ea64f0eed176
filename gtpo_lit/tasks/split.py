"""Which problems are for training and which for validation, decided by the text alone."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from gtpo_lit.types import Problem

Split = Literal["train", "validation"]

VALIDATION_SHARE = 10
"""One text in this many belongs to validation."""


def check_split(split: str) -> None:
    """Raise `ValueError` unless `split` is one of the two known names."""
    if split not in get_args(Split):
        raise ValueError(f"split must be one of {get_args(Split)}, got {split!r}")


def normalized_question(question: str) -> str:
    r"""The text with letter case and spacing evened out, to compare questions with.

    >>> normalized_question("  What is\n2 + 2? ")
    'what is 2 + 2?'
    """
    return " ".join(question.split()).casefold()


def stable_hash(text: str) -> int:
    """A 512-bit integer that is the same on every machine, Python version and process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8")).digest(), "big")


def split_of(question: str) -> Split:
    """The split that a question belongs to, whatever the seed of the source that drew it."""
    text = normalized_question(question).encode("utf-8")
    # The embedded policy's warm-up kept clear of validation by this very hash.
    bucket = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return "validation" if bucket % VALIDATION_SHARE == 0 else "train"


def take_distinct(candidates: Iterable[Problem], size: int, patience: int) -> Iterator[Problem]:
    """The first `size` candidates with different questions.

    Args:
        candidates: an endless stream of problems.
        size: how many are wanted.
        patience: how many candidates in a row may bring nothing new before the stream counts as
            exhausted; for each problem found, a further tenth of it is allowed.

    Raises:
        ValueError: if the stream runs dry; the message holds the number of problems found.
    """
    seen: set[str] = set()
    idle = 0
    for problem in candidates:
        text = normalized_question(problem.question)
        if text in seen:
            idle += 1
            if idle > patience + patience * len(seen) // 10:
                raise ValueError(
                    f"size={size} is too large: only {len(seen)} distinct validation problems "
                    f"exist for {problem.source!r} with these settings"
                )
            continue
        seen.add(text)
        idle = 0
        yield problem
        if len(seen) == size:
            return

"""Where problems come from, and which of them a step uses."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from functools import lru_cache

from gtpo_lit.tasks.split import normalized_question, stable_hash
from gtpo_lit.types import Problem


class ProblemSource(ABC):
    """A finite set of problems in which a number always names the same problem.

    Attributes:
        name: short name of the set; it becomes a part of metric names.
    """

    name: str

    @abstractmethod
    def __len__(self) -> int:
        """Number of problems."""

    @abstractmethod
    def problem(self, index: int) -> Problem:
        """The problem at `index`, a pure function of it. Raises `IndexError` outside the set."""

    def note(self) -> str:
        """What a run should say about the set, such as how many rows were dropped; may be empty."""
        return ""

    def check_index(self, index: int) -> None:
        """Raise `IndexError` unless `0 <= index < len(self)`."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.name} has problems 0 to {len(self) - 1}, not {index}")


@lru_cache(maxsize=4)
def _permutation(size: int, seed: int, number: int) -> tuple[int, ...]:
    # Of Python's generator only `random()` after an integer seed is promised to stay the same over
    # versions; `shuffle` is not. Sorting by such keys is a shuffle that stays.
    generator = random.Random(stable_hash(f"pass/{seed}/{number}"))
    keys = [generator.random() for _ in range(size)]
    return tuple(sorted(range(size), key=keys.__getitem__))


def walk(size: int, start: int, count: int, seed: int) -> list[int]:
    """The `count` rows from place `start` on of an endless walk, a pure function of the arguments.

    The set is walked pass after pass, each in an order of its own, so that every row is used once
    a pass. What is taken may lie across the end of a pass; nothing is left out.

    Args:
        size: number of problems in the set.
        start: places before it are taken already.
        count: how many to take.
        seed: decides the orders.

    Returns:
        `count` numbers below `size`.

    Raises:
        ValueError: for an empty set.

    >>> first, second, third = (walk(7, 3 * step, 3, seed=0) for step in range(3))
    >>> sorted(first + second + third[:1])
    [0, 1, 2, 3, 4, 5, 6]
    """
    if size < 1:
        raise ValueError("a set without problems cannot be walked")
    assert start >= 0
    places = range(start, start + count)
    return [_permutation(size, seed, place // size)[place % size] for place in places]


def overlap(train: ProblemSource, validation: ProblemSource) -> list[str]:
    """The validation questions that also occur in training, compared without case and spacing."""
    seen = {normalized_question(train.problem(index).question) for index in range(len(train))}
    questions = [validation.problem(index).question for index in range(len(validation))]
    return [question for question in questions if normalized_question(question) in seen]

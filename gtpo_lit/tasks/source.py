"""Where problems come from, how a step picks them, and what keeps validation apart."""

from __future__ import annotations

import hashlib
import random
from abc import ABC, abstractmethod
from typing import Literal

from gtpo_lit.types import Problem

Split = Literal["train", "validation"]

VALIDATION_TENTH = 0


class ProblemSource(ABC):
    """A finite list of problems; `problem` is a pure function of the index.

    Attributes:
        name: of the set, as metrics and files show it.
    """

    name: str

    @abstractmethod
    def __len__(self) -> int:
        """Number of problems."""

    @abstractmethod
    def problem(self, index: int) -> Problem:
        """The problem at `index`, always the same one."""


def in_validation(question: str) -> bool:
    """Whether a question belongs to validation: one in ten, by a stable hash of its text alone.

    Two sources that split by it never share a question between training and validation, whatever
    their seeds and sizes.

    Example:
        >>> sum(in_validation(f"{number}+1=") for number in range(1000))
        95
    """
    digest = hashlib.blake2b(question.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 10 == VALIDATION_TENTH


def step_indices(size: int, problems_per_step: int, step: int, seed: int) -> list[int]:
    """Indices of the problems of RL step `step` (0-based): a function of the arguments alone.

    Steps walk over shuffled passes of the set, end to end, so that every problem is drawn once a
    pass and none is left over.

    Raises:
        ValueError: if the set is smaller than one step, with both numbers.
    """
    if size < problems_per_step:
        raise ValueError(
            f"{size} usable problem(s), but one RL step needs problems_per_step = "
            f"{problems_per_step}"
        )
    orders: dict[int, list[int]] = {}
    indices = []
    for position in range(step * problems_per_step, (step + 1) * problems_per_step):
        number, place = divmod(position, size)
        if number not in orders:
            orders[number] = list(range(size))
            random.Random(f"{seed}/{number}").shuffle(orders[number])
        indices.append(orders[number][place])
    return indices


def overlap(train: ProblemSource, validation: ProblemSource) -> list[str]:
    """Questions that both sources hold, by text without surrounding or repeated white space."""
    seen = {_normalised(train.problem(index).question) for index in range(len(train))}
    questions = [validation.problem(index).question for index in range(len(validation))]
    return [question for question in questions if _normalised(question) in seen]


def _normalised(question: str) -> str:
    return " ".join(question.split())

"""Arithmetic chains: sums of a few digits, modulo a number."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from gtpo_lit.tasks.source import ProblemSource
from gtpo_lit.tasks.split import Split, check_split, split_of, stable_hash, take_distinct
from gtpo_lit.types import Problem

MAX_DIGITS = 100
"""A 512-bit hash gives this many digits evenly."""


class ChainSource(ProblemSource):
    """Sums such as ``3+4+8+1+9=``, to be answered modulo 10.

    The seed and the number of a problem decide it. No question is in both splits, whatever the
    two seeds, and validation holds no question twice.

    >>> source = ChainSource(size=2)
    >>> source.problem(0).question, source.problem(0).answer
    ('9+2+6+5+4=', '6')
    """

    name = "chains"

    def __init__(
        self,
        digits: int = 5,
        modulus: int = 10,
        split: Split = "train",
        size: int = 1024,
        seed: int = 0,
    ) -> None:
        """Choose the problems.

        Args:
            digits: number of digits that are added up.
            modulus: what the sum is reduced by; 10 makes every answer one digit.
            split: "train" or "validation", which takes a fixed tenth of all chains.
            size: number of problems.
            seed: decides which problems are drawn.

        Raises:
            ValueError: if an option is out of range, or if validation has fewer than `size`
                different problems.
        """
        check_split(split)
        if not 1 <= digits <= MAX_DIGITS:
            raise ValueError(f"digits must be in 1..{MAX_DIGITS}, got {digits}")
        if modulus < 2:
            raise ValueError(f"modulus must be at least 2, got {modulus}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.digits = digits
        self.modulus = modulus
        self.split: Split = split
        self.size = size
        self.seed = seed
        self._validation: tuple[str, ...] = ()
        if split == "validation":
            found = take_distinct(self._validation_stream(), size, patience=200)
            self._validation = tuple(problem.question for problem in found)

    def __len__(self) -> int:
        """Number of problems."""
        return self.size

    def problem(self, index: int) -> Problem:
        """The problem at `index`."""
        self.check_index(index)
        if self.split == "validation":
            return self._problem(index, self._validation[index])
        questions = (self._question(index, attempt) for attempt in count())
        return self._problem(index, next(text for text in questions if split_of(text) == "train"))

    def _validation_stream(self) -> Iterator[Problem]:
        questions = (self._question(index, 0) for index in count())
        return (self._problem(0, text) for text in questions if split_of(text) == "validation")

    def _question(self, index: int, attempt: int) -> str:
        draw = stable_hash(f"chain/{self.seed}/{index}/{attempt}") % 10**self.digits
        return "+".join(str(draw).zfill(self.digits)) + "="

    def _problem(self, index: int, question: str) -> Problem:
        total = sum(int(digit) for digit in question[:-1].split("+"))
        return Problem(
            id=f"{self.name}/{self.split}/{index}",
            question=question,
            answer=str(total % self.modulus),
            source=self.name,
        )

"""Arithmetic chains: sums of digits modulo a number, offline and without end."""

from __future__ import annotations

import random
from functools import lru_cache

from gtpo_lit.tasks.source import ProblemSource, Split, in_validation
from gtpo_lit.types import Problem


class ChainSource(ProblemSource):
    """Questions like ``3+4+8+1+9=`` with the answer ``5``: the sum modulo 10.

    Problems are distinct inside a source, and training and validation never share one.

    Args:
        split: "train" or "validation".
        size: number of problems.
        digits: terms of a sum, at least 2.
        modulus: in [2, 10].
        seed: which problems, and in which order.
    """

    def __init__(
        self,
        split: Split = "train",
        size: int = 4096,
        digits: int = 5,
        modulus: int = 10,
        seed: int = 0,
    ) -> None:
        if digits < 2:
            raise ValueError(f"digits must be at least 2, got {digits}")
        if not 2 <= modulus <= 10:
            raise ValueError(f"modulus must be in [2, 10], got {modulus}")
        if split not in ("train", "validation"):
            raise ValueError(f"split must be 'train' or 'validation', got {split!r}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.name = "chains"
        self.modulus = modulus
        self._split = split
        self._questions = _questions(split, size, digits, seed)

    def __len__(self) -> int:
        return len(self._questions)

    def problem(self, index: int) -> Problem:
        """The chain at `index`."""
        question = self._questions[index]
        total = sum(int(digit) for digit in question[:-1].split("+"))
        return Problem(
            id=f"{self.name}/{self._split}/{index}",
            question=question,
            answer=str(total % self.modulus),
            source=self.name,
        )


@lru_cache(maxsize=8)
def _questions(split: Split, size: int, digits: int, seed: int) -> tuple[str, ...]:
    generator = random.Random(f"chains/{split}/{digits}/{seed}")
    found: dict[str, None] = {}
    # About a tenth of all chains are validation's; far fewer draws than this find what exists.
    for _ in range(200 * size + 200 * 10**2):
        question = "+".join(str(generator.randrange(10)) for _ in range(digits)) + "="
        if in_validation(question) == (split == "validation"):
            found[question] = None
            if len(found) == size:
                return tuple(found)
    raise ValueError(
        f"size = {size}, but only {len(found)} distinct {split} chains of {digits} digits exist"
    )

"""What every reward is: responses in, one score each out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gtpo_lit.types import Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Marks:
    """What a reward says about N completions, in their order."""

    scores: Sequence[float]
    """[N] finite scores."""
    incidents: Mapping[str, Sequence[bool]] = field(default_factory=dict)
    """[N] by kind, such as "timeouts": whether it happened to the completion."""


class Reward(ABC):
    """Base class. A new reward overrides `score`, or `grade` if it needs more than the answer."""

    @abstractmethod
    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """One finite score for each completion, given its reference answer."""

    def grade(self, completions: list[str], problems: Sequence[Problem]) -> list[float]:
        """One finite score for each completion, given its problem."""
        return self.score(completions, [problem.answer for problem in problems])

    def mark(self, completions: list[str], problems: Sequence[Problem]) -> Marks:
        """The scores of `grade`, and what went wrong on the way."""
        return Marks(scores=self.grade(completions, problems))

    def found_answers(self, completions: list[str]) -> list[str | None] | None:
        """The answer read in each completion, None where there is none.

        A reward that reads no answers gives None for all. What is found decides nothing here: it
        is written beside the samples, and evaluation lets it vote.
        """
        return None

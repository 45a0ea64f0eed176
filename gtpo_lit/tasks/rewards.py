"""Scores of completions: single rewards, and their weighted sum with the accuracy kept apart."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from gtpo_lit.tasks.answers import Extract, extract_answer
from gtpo_lit.types import Problem


class Reward(ABC):
    """Scores completions against reference answers. A subclass overrides `score` or `grade`."""

    @abstractmethod
    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """One score for each completion."""

    def grade(self, completions: list[str], problems: Sequence[Problem]) -> list[float]:
        """One score for each completion of the problem at the same place."""
        return self.score(completions, [problem.answer for problem in problems])


class ExactReward(Reward):
    """1 where the extracted answer equals the reference letter by letter, else 0.

    Args:
        extract: where in the response the answer stands, see `extract_answer`.
    """

    def __init__(self, extract: Extract = "whole") -> None:
        if extract not in get_args(Extract):
            raise ValueError(f"extract must be one of {get_args(Extract)}, got {extract!r}")
        self.extract: Extract = extract

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion."""
        return [
            float(extract_answer(completion, self.extract) == answer.strip())
            for completion, answer in zip(completions, answers, strict=True)
        ]


class ReasoningGymReward(Reward):
    """The scorer of the reasoning-gym task that a problem came from.

    Args:
        extract: where in the response the answer stands.
        binary: 1 for a full score and 0 for anything less; else the task's own partial scores.
    """

    def __init__(self, extract: Extract = "whole", binary: bool = True) -> None:
        if extract not in get_args(Extract):
            raise ValueError(f"extract must be one of {get_args(Extract)}, got {extract!r}")
        self.extract: Extract = extract
        self.binary = binary

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """Not enough to score by: the task's scorer reads the whole problem.

        Raises:
            ValueError: always; `grade` takes the problems.
        """
        raise ValueError("ReasoningGymReward needs problems, not answers alone: call grade")

    def grade(self, completions: list[str], problems: Sequence[Problem]) -> list[float]:
        """The task's score of each completion.

        Raises:
            ValueError: for a problem of another source.
        """
        from reasoning_gym import get_score_answer_fn

        scores = []
        for completion, problem in zip(completions, problems, strict=True):
            if "entry" not in problem.metadata:
                raise ValueError(
                    f"ReasoningGymReward cannot score {problem.id!r}: its source is "
                    f"{problem.source!r}, not a reasoning-gym task"
                )
            scorer = get_score_answer_fn(problem.metadata["task"])
            answer = extract_answer(completion, self.extract)
            value = float(scorer(answer=answer, entry=problem.metadata["entry"]))
            scores.append(float(value >= 1.0) if self.binary else value)
        return scores


class FormatReward(Reward):
    """1 where the whole response matches a pattern, else 0.

    Args:
        pattern: a regular expression; "." matches line ends too.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self.pattern = re.compile(pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"pattern {pattern!r} is not a regular expression: {error}") from error

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion; answers are not read."""
        return [float(self.pattern.fullmatch(completion) is not None) for completion in completions]


@dataclass(frozen=True, kw_only=True)
class RewardTerm:
    """One more term of a weighted sum."""

    name: str
    """Names its metric, `train/reward/<name>`."""
    reward: Reward
    """What scores it."""
    weight: float = 1.0
    """Its factor in the sum."""


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores of N completions."""

    total: list[float]
    """Weighted sums."""
    correct: list[bool]
    """By the accuracy term alone."""
    components: dict[str, list[float]]
    """Unweighted, by term; the accuracy term is called "accuracy"."""


class WeightedReward:
    """Accuracy, and any number of further terms. Only accuracy decides what is correct.

    Args:
        accuracy: scores whether the answer is right.
        accuracy_weight: its factor in the sum.
        others: further terms.
        correct_threshold: a completion is correct if its accuracy score is above this.
    """

    def __init__(
        self,
        accuracy: Reward,
        accuracy_weight: float = 1.0,
        others: list[RewardTerm] | None = None,
        correct_threshold: float = 0.5,
    ) -> None:
        self.terms = [
            RewardTerm(name="accuracy", reward=accuracy, weight=accuracy_weight),
            *(others or []),
        ]
        self.correct_threshold = correct_threshold
        names = [term.name for term in self.terms]
        if len(set(names)) < len(names):
            raise ValueError(f"reward terms need names of their own, got {names}")
        for term in self.terms:
            if not math.isfinite(term.weight):
                raise ValueError(f"weight of reward {term.name!r} is not finite: {term.weight}")
        if not math.isfinite(correct_threshold):
            raise ValueError(f"correct_threshold is not finite: {correct_threshold}")

    def grade(self, completions: list[str], problems: Sequence[Problem]) -> Scores:
        """Score completions, each against the problem at the same place.

        Raises:
            ValueError: if a term returns too few or too many scores, or one that is not finite.
        """
        components = {}
        for term in self.terms:
            scores = term.reward.grade(completions, problems)
            if len(scores) != len(completions) or not all(map(math.isfinite, scores)):
                raise ValueError(
                    f"reward {term.name!r} must give one finite score for each of "
                    f"{len(completions)} completions, got {scores}"
                )
            components[term.name] = scores
        total = [
            sum(term.weight * score for term, score in zip(self.terms, row, strict=True))
            for row in zip(*components.values(), strict=True)
        ]
        correct = [score > self.correct_threshold for score in components["accuracy"]]
        return Scores(total=total, correct=correct, components=components)

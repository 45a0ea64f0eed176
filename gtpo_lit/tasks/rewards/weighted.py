"""Several rewards as one, with the accuracy part kept apart."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gtpo_lit.tasks.rewards.reward import Reward
from gtpo_lit.types import Problem

ACCURACY = "accuracy"
"""Name of the accuracy term among the components."""


@dataclass(frozen=True, kw_only=True)
class RewardTerm:
    """One reward of a sum.

    Args:
        reward: what scores the responses.
        weight: what its score is multiplied by in the total; may be negative.
        name: becomes a part of metric names; letters, digits, `_`, `.` and `-`. If empty, the
            name of the class: "math" for `MathReward`.
        accuracy: whether this is the term that decides what is correct; for `data.rewards`.
    """

    reward: Reward
    weight: float = 1.0
    name: str = ""
    accuracy: bool = False

    def __post_init__(self) -> None:
        """Raise `ValueError` for a name or weight that cannot be used."""
        if not self.name:
            words = type(self.reward).__name__.removesuffix("Reward") or "reward"
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", words).lower()
            object.__setattr__(self, "name", name)
        if not re.fullmatch(r"[A-Za-z0-9_.\-]+", self.name):
            raise ValueError(f"name of a reward term must be a plain word, got {self.name!r}")
        if self.name in ("mean", "std"):
            raise ValueError(f"name of a reward term: train/reward/{self.name} is taken already")
        if not math.isfinite(self.weight):
            raise ValueError(f"weight of reward {self.name!r} must be finite, got {self.weight}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What a `WeightedReward` says about N completions, in their order."""

    total: tuple[float, ...]
    """[N]: weighted sum of all terms."""
    accuracy: tuple[float, ...]
    """[N]: unweighted score of the accuracy term."""
    correct: tuple[bool, ...]
    """[N]: whether the accuracy is above the threshold; nothing else enters."""
    components: dict[str, tuple[float, ...]]
    """[N] unweighted score of every term by name, the accuracy first."""
    incidents: dict[str, tuple[bool, ...]] = field(default_factory=dict)
    """[N] by "<term>/<kind>", such as "math/timeouts": what went wrong with which completion."""
    answers: tuple[str | None, ...] | None = None
    """[N] answer that the accuracy term found, None where it found none; None for all if it looks
    for none."""


class WeightedReward:
    """Weighted sum of an accuracy reward and any others."""

    def __init__(
        self,
        accuracy: Reward,
        accuracy_weight: float = 1.0,
        others: list[RewardTerm] | None = None,
        correct_threshold: float = 0.5,
        accuracy_name: str = ACCURACY,
    ) -> None:
        """Choose the terms.

        Args:
            accuracy: the reward that decides what is correct.
            accuracy_weight: what its score is multiplied by in the total.
            others: further terms, each with a name and a weight.
            correct_threshold: a response is correct if its accuracy score is above this; at least
                0 and below 1.
            accuracy_name: name of the accuracy term in metrics.

        Raises:
            ValueError: if two terms have one name, a weight is not finite, or the threshold is
                out of range.
        """
        if not 0 <= correct_threshold < 1:
            raise ValueError(f"correct_threshold must be in [0, 1), got {correct_threshold}")
        if not math.isfinite(accuracy_weight):
            raise ValueError(f"accuracy_weight must be finite, got {accuracy_weight}")
        first = RewardTerm(name=accuracy_name, reward=accuracy, weight=accuracy_weight)
        self.terms = (first, *(others or ()))
        names = [term.name for term in self.terms]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"others: reward terms need different names, {repeated} is repeated")
        self.correct_threshold = correct_threshold
        self.accuracy_name = accuracy_name

    def grade(self, completions: Sequence[str], problems: Sequence[Problem]) -> Scores:
        """Score each completion against its problem (the same number of both).

        Raises:
            ValueError: if a reward returns a wrong number of scores, or one that is not finite.
        """
        if len(completions) != len(problems):
            raise ValueError(f"{len(completions)} completions but {len(problems)} problems")
        marks = {term.name: term.reward.mark(list(completions), problems) for term in self.terms}
        components = {
            term.name: _checked(term, marks[term.name].scores, problems) for term in self.terms
        }
        weights = [term.weight for term in self.terms]
        accuracy = components[self.accuracy_name]
        return Scores(
            total=tuple(
                math.fsum(weight * score for weight, score in zip(weights, row, strict=True))
                for row in zip(*components.values(), strict=True)
            ),
            accuracy=accuracy,
            correct=tuple(score > self.correct_threshold for score in accuracy),
            components=components,
            incidents={
                f"{name}/{kind}": tuple(flags)
                for name, mark in marks.items()
                for kind, flags in mark.incidents.items()
            },
            answers=_answers(self.terms[0].reward, completions),
        )


def _checked(
    term: RewardTerm, marks: Sequence[float], problems: Sequence[Problem]
) -> tuple[float, ...]:
    scores = tuple(float(score) for score in marks)
    label = f"reward {term.name!r} ({type(term.reward).__name__})"
    if len(scores) != len(problems):
        raise ValueError(f"{label} gave {len(scores)} scores for {len(problems)} completions")
    for index, score in enumerate(scores):
        if not math.isfinite(score):
            raise ValueError(
                f"{label} gave {score} for completion {index} of problem {problems[index].id!r}"
            )
    return scores


def chosen_reward(
    reward: WeightedReward | None, rewards: list[RewardTerm] | None
) -> WeightedReward:
    """The reward of a run from `data.reward` or `data.rewards`, of which one must be set.

    Raises:
        ValueError: if none or both are set, or not exactly one of `rewards` is the accuracy term (a
            single one is it without saying so).
    """
    if (reward is None) == (not rewards):
        raise ValueError(
            "set data.rewards (a list of rewards with weights) or data.reward, not "
            + ("both" if rewards else "neither")
        )
    if reward is not None:
        return reward
    assert rewards
    decisive = [term for term in rewards if term.accuracy or len(rewards) == 1]
    if len(decisive) != 1:
        raise ValueError(
            "data.rewards needs exactly one term with accuracy: true, which decides what is "
            f"correct; {[term.name for term in decisive]} of "
            f"{[term.name for term in rewards]} have it"
        )
    accuracy = decisive[0]
    return WeightedReward(
        accuracy.reward,
        accuracy_weight=accuracy.weight,
        others=[term for term in rewards if term is not accuracy],
        accuracy_name=accuracy.name,
    )


def _answers(reward: Reward, completions: Sequence[str]) -> tuple[str | None, ...] | None:
    found = reward.found_answers(list(completions))
    if found is None:
        return None
    if len(found) != len(completions):
        raise ValueError(
            f"{type(reward).__name__}.found_answers gave {len(found)} answers for "
            f"{len(completions)} completions"
        )
    return tuple(found)

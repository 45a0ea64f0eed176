"""The length of a response, whatever its answer."""

from __future__ import annotations

from typing import Literal, get_args

from gtpo_lit.tasks.rewards.reward import Reward

Unit = Literal["characters", "words"]


class LengthReward(Reward):
    """1 between two lengths, falling linearly to 0 outside. Never decides what is correct.

    For a penalty by tokens, see the algorithms' overlong options.

    >>> reward = LengthReward(least=2, most=4, slack=2, unit="words")
    >>> reward.score(["a", "a b", "a b c d e"], [""] * 3)
    [0.5, 1.0, 0.5]
    """

    def __init__(
        self, most: int, least: int = 0, slack: int = 0, unit: Unit = "characters"
    ) -> None:
        """Choose the lengths.

        Args:
            most: longest response that scores 1.
            least: shortest one.
            slack: how far outside the score reaches 0; 0 makes it fall at once.
            unit: what is counted: "characters", or "words" between spaces.

        Raises:
            ValueError: if `least` is negative or above `most`, or `slack` is negative.
        """
        if not 0 <= least <= most:
            raise ValueError(f"least must be in 0..most={most}, got {least}")
        if slack < 0:
            raise ValueError(f"slack must not be negative, got {slack}")
        if unit not in get_args(Unit):
            raise ValueError(f"unit must be one of {get_args(Unit)}, got {unit!r}")
        self.most, self.least, self.slack = most, least, slack
        self.unit: Unit = unit

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """A score in [0, 1] for each completion; the answers play no part."""
        if len(completions) != len(answers):
            raise ValueError(f"{len(completions)} completions but {len(answers)} answers")
        return [self._score(self._length(completion)) for completion in completions]

    def _length(self, completion: str) -> int:
        return len(completion) if self.unit == "characters" else len(completion.split())

    def _score(self, length: int) -> float:
        outside = max(self.least - length, length - self.most, 0)
        if outside == 0:
            return 1.0
        return max(0.0, 1 - outside / self.slack) if self.slack else 0.0

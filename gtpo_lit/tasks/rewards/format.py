"""The shape of a response, whatever its answer."""

from __future__ import annotations

import re

from gtpo_lit.tasks.rewards.reward import Reward


class FormatReward(Reward):
    """1 if the response has the wanted shape, else 0. Never decides what is correct.

    >>> FormatReward(pattern=r"<think>.*</think>.*").score(["<think>a</think>b", "b"], ["", ""])
    [1.0, 0.0]
    """

    def __init__(self, pattern: str, full_match: bool = True) -> None:
        """Choose the shape.

        Args:
            pattern: a regular expression in Python's syntax, in which `.` matches newlines too.
            full_match: whether it must cover the whole response, space around it aside, or may
                match anywhere in it.

        Raises:
            ValueError: if `pattern` is no regular expression.
        """
        try:
            self._regex = re.compile(pattern, re.DOTALL)
        except re.error as error:
            raise ValueError(f"pattern is no regular expression: {pattern!r} ({error})") from error
        self.pattern = pattern
        self.full_match = full_match

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion; the answers play no part."""
        if len(completions) != len(answers):
            raise ValueError(f"{len(completions)} completions but {len(answers)} answers")
        match = self._regex.fullmatch if self.full_match else self._regex.search
        return [float(match(completion.strip()) is not None) for completion in completions]

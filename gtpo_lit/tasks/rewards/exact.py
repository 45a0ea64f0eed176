"""The answer, character by character."""

from __future__ import annotations

from gtpo_lit.tasks.answers import Extract, check_extract, extract_answer
from gtpo_lit.tasks.rewards.reward import Reward


class ExactReward(Reward):
    """1 if the answer found in the response equals the reference, else 0.

    Space around the two is ignored.

    >>> ExactReward(extract="last_equals").score(["3+4=7;7+8=5", "6"], ["5", "5"])
    [1.0, 0.0]
    """

    def __init__(self, extract: Extract = "whole", require_think: bool = False) -> None:
        r"""Choose where the answer stands.

        Args:
            extract: "whole" (all of the response), "last_equals" (after the last `=`, or all if
                there is none), "last_number", "boxed" (the last complete `\boxed{}`) or
                "answer_tag" (the last complete `<answer>` tag). Only what follows the last
                `</think>` is read.
            require_think: whether a response without `</think>` has no answer at all; for models
                whose prompt already opens `<think>`.

        Raises:
            ValueError: if `extract` is unknown.
        """
        check_extract(extract)
        self.extract: Extract = extract
        self.require_think = require_think

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion."""
        return [
            float(self._found(completion) == answer.strip())
            for completion, answer in zip(completions, answers, strict=True)
        ]

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """What stands where `extract` says."""
        return [self._found(completion) for completion in completions]

    def _found(self, completion: str) -> str | None:
        return extract_answer(completion, self.extract, require_think=self.require_think)

"""The letter of a multiple-choice question."""

from __future__ import annotations

import re

from gtpo_lit.tasks.answers import extract_answer
from gtpo_lit.tasks.rewards.reward import Reward

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*\{([^{}]*)\}")


class ChoiceReward(Reward):
    r"""1 if the response chooses the reference's letter, else 0.

    The last complete box or `<answer>` tag decides, whichever stands later; else the letter after
    the last "answer is" or "answer:". A choice of two letters is none.

    >>> texts = [r"\boxed{\text{(B)}}", "The answer is (B) 12.", "<answer>b</answer>", "A or B"]
    >>> ChoiceReward().score(texts, ["B"] * 4)
    [1.0, 1.0, 1.0, 0.0]
    """

    def __init__(self, letters: str = "ABCDE", require_think: bool = False) -> None:
        """Choose the letters.

        Args:
            letters: the options there are.
            require_think: whether a response without `</think>` has no answer at all.

        Raises:
            ValueError: unless `letters` holds two different capital letters or more.
        """
        distinct = len(set(letters)) == len(letters) >= 2
        if not (distinct and re.fullmatch("[A-Z]+", letters)):
            raise ValueError(f"letters must be different capital letters, got {letters!r}")
        self.letters = letters
        self.require_think = require_think
        # A letter, alone or before its option's text: "(B)", "B.", "B) 12", "B: 12".
        self._choice = re.compile(rf"\(?([{letters}])(?:\)|[.:](?!\d)|$)(.*)", re.DOTALL)
        self._stated = re.compile(
            rf"(?i:answer\s*(?:is|:)(?:\s*:)?)[\s*$]*(\(?[{letters}]\)?)(?![\w'])"
        )

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion.

        Raises:
            ValueError: if an answer is none of the letters.
        """
        scores = []
        for completion, answer in zip(completions, answers, strict=True):
            reference = self._letter(answer)
            if reference is None:
                raise ValueError(
                    f"ChoiceReward: the reference answer {answer!r} is none of {self.letters!r}"
                )
            scores.append(float(self._chosen(completion) == reference))
        return scores

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """The letter that each completion chooses."""
        return [self._chosen(completion) for completion in completions]

    def _chosen(self, completion: str) -> str | None:
        text = extract_answer(completion, "whole", require_think=self.require_think)
        if text is None:
            return None
        marked = [
            (text.rfind(found), found)
            for found in (extract_answer(text, "boxed"), extract_answer(text, "answer_tag"))
            if found is not None
        ]
        if marked:
            return self._letter(max(marked)[1])
        stated = self._stated.findall(text)
        return self._letter(stated[-1]) if stated else None

    def _letter(self, text: str) -> str | None:
        text = _WRAPPED.sub(r"\1", text).strip(" $\n")
        match = self._choice.match(text.upper() if len(text) == 1 else text)
        if match is None:
            return None
        others = re.search(rf"\b[{self.letters}]\b", match[2])
        return None if others else match[1]

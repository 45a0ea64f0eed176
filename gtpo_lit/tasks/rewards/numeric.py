"""A number, within a tolerance."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from gtpo_lit.tasks.answers import Extract, check_extract, extract_answer
from gtpo_lit.tasks.rewards.reward import Reward

# The sizes are bounded, since a number such as 1e999999999 would fill the memory.
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\s*(?P<whole>\d{1,400}|\d{1,3}(?:,\d{3}){1,100})?(?P<rest>\.\d{0,400})?"
    r"(?:[eE](?P<exponent>[-+]?\d{1,3}))?(?:\s*/\s*(?P<below>\d{1,400}))?",
    re.ASCII,
)


class NumericReward(Reward):
    """1 if the number found in the response is near enough to the reference, else 0.

    Numbers are decimals, with thousands commas or an exponent, or fractions such as 3/4. They are
    compared exactly unless a tolerance is set.

    >>> NumericReward(tolerance=0.01).score(["x = 3.14", "3", "pi"], ["3.1416"] * 3)
    [1.0, 0.0, 0.0]
    """

    def __init__(
        self,
        extract: Extract = "last_number",
        tolerance: float = 0.0,
        relative_tolerance: float = 0.0,
        require_think: bool = False,
    ) -> None:
        r"""Choose where the number stands and how near it must be.

        Args:
            extract: where it stands, as for `ExactReward`.
            tolerance: largest distance that counts as right.
            relative_tolerance: largest distance as a share of the reference's size; the larger of
                the two tolerances holds.
            require_think: whether a response without `</think>` has no answer at all.

        Raises:
            ValueError: if `extract` is unknown or a tolerance is negative or not finite.
        """
        check_extract(extract)
        for name, value in (("tolerance", tolerance), ("relative_tolerance", relative_tolerance)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"{name} must be finite and not negative, got {value}")
        self.extract: Extract = extract
        self.tolerance = Fraction(str(tolerance))
        self.relative_tolerance = Fraction(str(relative_tolerance))
        self.require_think = require_think

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion.

        Raises:
            ValueError: if an answer is no number.
        """
        return [
            float(self._right(completion, answer))
            for completion, answer in zip(completions, answers, strict=True)
        ]

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """The exact number of each completion, as a whole number or fraction."""
        numbers = (self._number(completion) for completion in completions)
        return [None if found is None else str(found) for found in numbers]

    def _number(self, completion: str) -> Fraction | None:
        text = extract_answer(completion, self.extract, require_think=self.require_think)
        return None if text is None else number(text)

    def _right(self, completion: str, answer: str) -> bool:
        reference = number(answer)
        if reference is None:
            raise ValueError(f"NumericReward: the reference answer {answer!r} is no number")
        found = self._number(completion)
        if found is None:
            return False
        allowed = max(self.tolerance, self.relative_tolerance * abs(reference))
        return abs(found - reference) <= allowed


def number(text: str) -> Fraction | None:
    """The exact value of a number as text; None if it is none.

    >>> number("-1,234.5"), number("3/4"), number("2e3"), number("2+2")
    (Fraction(-2469, 2), Fraction(3, 4), Fraction(2000, 1), None)
    """
    match = _NUMBER.fullmatch(text.strip().strip("$").strip())
    if match is None or not re.search(r"\d", (match["whole"] or "") + (match["rest"] or "")):
        return None
    digits = (match["whole"] or "0").replace(",", "") + (match["rest"] or "").rstrip(".")
    value = Fraction(f"{match['sign']}{digits}e{match['exponent'] or 0}")
    below = int(match["below"] or 1)
    return value / below if below else None

from __future__ import annotations

import pytest

from gtpo_lit.tasks import ExactReward, FormatReward, ReasoningGymReward, RewardTerm, WeightedReward
from gtpo_lit.types import Problem

TEXTS = [r"so \boxed{7}", "no box", r"\boxed{7} or \boxed{ 8 }"]
PROBLEMS = [Problem(id=str(i), question="?", answer="7") for i in range(3)]


@pytest.mark.parametrize("reward", [ExactReward("boxed"), ReasoningGymReward(extract="boxed")])
def test_what_is_found_stands_where_the_reward_reads(reward) -> None:
    assert reward.found_answers(TEXTS) == ["7", None, "8"]


def test_the_accuracy_term_alone_tells_answers() -> None:
    shape = RewardTerm(name="shape", reward=FormatReward(pattern=".*box.*"))
    scores = WeightedReward(ExactReward("boxed"), others=[shape]).grade(TEXTS, PROBLEMS)
    assert scores.answers == ("7", None, "8")
    assert scores.correct == (True, False, False)
    assert WeightedReward(FormatReward(pattern=".*")).grade(TEXTS, PROBLEMS).answers is None


def test_a_wrong_number_of_answers_is_an_error() -> None:
    class Short(ExactReward):
        def found_answers(self, completions: list[str]) -> list[str | None]:
            return ["7"]

    with pytest.raises(ValueError, match=r"Short.found_answers gave 1 answers for 3 completions"):
        WeightedReward(Short("boxed")).grade(TEXTS, PROBLEMS)

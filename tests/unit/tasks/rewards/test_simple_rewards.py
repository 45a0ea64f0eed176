from __future__ import annotations

import pytest

from gtpo_lit.tasks.rewards import ExactReward, FormatReward
from gtpo_lit.types import Problem


def test_exact_on_chain_responses() -> None:
    reward = ExactReward(extract="last_equals")
    completions = ["5", " 5\n", "3+4=7;7+8=5;5+1=6;6+9=5", "3+4=7;7+8=6", "55", "", "3+4="]
    assert reward.score(completions, ["5"] * 7) == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]


def test_exact_reads_the_answer_of_the_problem() -> None:
    problems = [Problem(id=str(i), question="q", answer=str(i)) for i in range(2)]
    assert ExactReward().grade(["0", "0"], problems) == [1.0, 0.0]


def test_exact_ways_and_thinking() -> None:
    text = r"<think>\boxed{1}</think> \boxed{2} <answer>3</answer> so 4 = 5"
    for extract, answer in (("boxed", "2"), ("answer_tag", "3"), ("last_number", "5")):
        assert ExactReward(extract=extract).score([text, text], [answer, "1"]) == [1.0, 0.0]
    assert ExactReward(require_think=True).score(["4", "</think>4"], ["4", "4"]) == [0.0, 1.0]


def test_exact_refuses_unequal_numbers_and_unknown_ways() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ExactReward().score(["1", "2"], ["1"])
    with pytest.raises(ValueError, match="got 'latex'"):
        ExactReward(extract="latex")


def test_format_full_match_or_anywhere() -> None:
    pattern = r"<think>.*</think>\s*<answer>.*</answer>"
    good, longer = "<think>\n</think>\n<answer>4</answer> ", "x<think></think><answer></answer>"
    assert FormatReward(pattern).score([good, longer, "4"], [""] * 3) == [1.0, 0.0, 0.0]
    anywhere = FormatReward(pattern, full_match=False)
    assert anywhere.score([good, longer, "4"], [""] * 3) == [1.0, 1.0, 0.0]


def test_format_errors() -> None:
    with pytest.raises(ValueError, match=r"pattern is no regular expression: '\('"):
        FormatReward("(")
    with pytest.raises(ValueError, match="2 completions but 1 answers"):
        FormatReward("x").score(["x", "y"], [""])

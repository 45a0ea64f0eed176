from __future__ import annotations

import pytest

from gtpo_lit.tasks.rewards import (
    ChoiceReward,
    ExactReward,
    FormatReward,
    LengthReward,
    NumericReward,
)
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


@pytest.mark.parametrize(
    ("completion", "answer", "wanted"),
    [
        ("so x = 1,234.50.", "1234.5", 1.0),
        ("so x = -3", "3", 0.0),
        ("12 of 13", "12", 0.0),
        ("<think>4</think> 5", "4", 0.0),
        ("none", "4", 0.0),
        ("0.1", "1/10", 1.0),
        ("1000", "1e3", 1.0),
        ("1" * 500, "1", 0.0),
    ],
)
def test_numeric(completion: str, answer: str, wanted: float) -> None:
    assert NumericReward().score([completion], [answer]) == [wanted]


def test_numeric_tolerances_are_exact() -> None:
    texts = ["9.9", "9.89", "10.1", "10.11"]
    assert NumericReward(tolerance=0.1).score(texts, ["10"] * 4) == [1.0, 0.0, 1.0, 0.0]
    relative = NumericReward(relative_tolerance=0.01)
    assert relative.score(texts, ["10"] * 4) == [1.0, 0.0, 1.0, 0.0]
    boxed = NumericReward(extract="boxed")
    assert boxed.score([r"\boxed{3/4}", r"\boxed{1e9999999}"], ["0.75"] * 2) == [1.0, 0.0]
    with pytest.raises(ValueError, match="the reference answer 'pi' is no number"):
        boxed.score(["3"], ["pi"])
    with pytest.raises(ValueError, match=r"tolerance must be finite and not negative, got -1"):
        NumericReward(tolerance=-1.0)


@pytest.mark.parametrize(
    ("completion", "wanted"),
    [
        (r"\boxed{B}", 1.0),
        (r"\boxed{\textbf{(B) }12}", 1.0),
        (r"\boxed{B. 12}", 1.0),
        (r"\boxed{b}", 1.0),
        (r"\boxed{A}", 0.0),
        (r"\boxed{A} no \boxed{B}", 1.0),
        (r"\boxed{B, C}", 0.0),
        (r"\boxed{Both}", 0.0),
        (r"\boxed{B} <answer>C</answer>", 0.0),
        ("The answer is **B**.", 1.0),
        ("Answer: (B)", 1.0),
        ("The answer is Bread", 0.0),
        ("A is wrong, B is right", 0.0),
        (r"<think>\boxed{B}</think> \boxed{C}", 0.0),
    ],
)
def test_choice(completion: str, wanted: float) -> None:
    for answer in ("B", "(B)", r"\text{(B)}"):
        assert ChoiceReward().score([completion], [answer]) == [wanted]


def test_choice_errors() -> None:
    with pytest.raises(ValueError, match="reference answer 'F' is none of 'ABCDE'"):
        ChoiceReward().score(["A"], ["F"])
    assert ChoiceReward(letters="ABCDEF").score([r"\boxed{F}"], ["F"]) == [1.0]
    for letters in ("A", "AA", "ab", "A1"):
        with pytest.raises(ValueError, match="letters must be different capital letters"):
            ChoiceReward(letters=letters)


def test_length_by_hand() -> None:
    reward = LengthReward(least=4, most=6, slack=4)
    texts = ["", "a" * 2, "a" * 4, "a" * 6, "a" * 7, "a" * 10, "a" * 99]
    assert reward.score(texts, [""] * 7) == [0.0, 0.5, 1.0, 1.0, 0.75, 0.0, 0.0]
    assert LengthReward(most=2, unit="words").score(["a b", "a b c"], [""] * 2) == [1.0, 0.0]
    with pytest.raises(ValueError, match=r"least must be in 0\.\.most=2, got 3"):
        LengthReward(most=2, least=3)
    with pytest.raises(ValueError, match="slack must not be negative, got -1"):
        LengthReward(most=2, slack=-1)
    with pytest.raises(ValueError, match="unit must be one of .* got 'tokens'"):
        LengthReward(most=2, unit="tokens")
    with pytest.raises(ValueError, match="1 completions but 2 answers"):
        LengthReward(most=2).score(["a"], ["", ""])

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo_lit.tasks import ChainSource, overlap


def test_questions_and_answers_by_hand() -> None:
    source = ChainSource(size=3)
    assert [source.problem(i).question for i in range(3)] == [
        "9+2+6+5+4=",
        "2+9+8+3+6=",
        "7+7+7+5+7=",
    ]
    assert [source.problem(i).answer for i in range(3)] == ["6", "8", "3"]
    assert source.problem(1).id == "chains/train/1"
    assert source.problem(1).source == source.name == "chains"


def test_modulus_and_number_of_digits() -> None:
    problem = ChainSource(digits=3, modulus=7, size=1).problem(0)
    digits = [int(digit) for digit in problem.question.rstrip("=").split("+")]
    assert len(digits) == 3
    assert problem.answer == str(sum(digits) % 7)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_splits_never_meet_for_any_seeds(train_seed: int, validation_seed: int) -> None:
    train = ChainSource(digits=3, split="train", size=300, seed=train_seed)
    validation = ChainSource(digits=3, split="validation", size=50, seed=validation_seed)
    assert overlap(train, validation) == []
    assert len({validation.problem(i).question for i in range(50)}) == 50


def test_problem_is_a_pure_function_of_seed_and_index() -> None:
    state = random.getstate()
    forward = [ChainSource(size=64, seed=3).problem(i) for i in range(64)]
    source = ChainSource(size=64, seed=3)
    assert [source.problem(i) for i in reversed(range(64))] == forward[::-1]
    assert [ChainSource(size=8, seed=3).problem(i) for i in range(8)] == forward[:8]
    assert forward != [ChainSource(size=64, seed=4).problem(i) for i in range(64)]
    assert random.getstate() == state


def test_rows_with_the_same_text_keep_their_own_ids() -> None:
    # 10 texts for 40 rows: most occur several times (report G3).
    problems = [ChainSource(digits=1, size=40).problem(i) for i in range(40)]
    assert len({problem.question for problem in problems}) <= 10
    assert len({problem.id for problem in problems}) == 40


def test_small_spaces_are_exhausted_with_the_number_there_is() -> None:
    with pytest.raises(ValueError, match=r"only \d+ distinct validation problems") as caught:
        ChainSource(digits=2, split="validation", size=100)
    available = int(str(caught.value).split("only ")[1].split()[0])
    assert len(ChainSource(digits=2, split="validation", size=available, seed=9)) == available
    with pytest.raises(ValueError, match=f"only {available} distinct"):
        ChainSource(digits=2, split="validation", size=available + 1, seed=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": 0}, "digits must be in 1..100, got 0"),
        ({"modulus": 1}, "modulus must be at least 2, got 1"),
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"split": "test"}, "got 'test'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChainSource(**options)

from __future__ import annotations

from itertools import cycle

import pytest

from gtpo_lit.tasks.split import check_split, split_of, stable_hash, take_distinct
from gtpo_lit.types import Problem


def _problem(text: str) -> Problem:
    return Problem(id=text, question=text, answer="", source="letters")


def test_hash_is_blake2b() -> None:
    # First bytes of the published test vector blake2b("abc").
    assert stable_hash("abc") >> (512 - 32) == 0xBA80A53F


def test_a_tenth_is_validation_and_spelling_does_not_matter() -> None:
    share = sum(split_of(f"question {index}") == "validation" for index in range(5000)) / 5000
    assert share == pytest.approx(0.1, abs=0.015)
    assert all(
        split_of(f"Question {index} ?") == split_of(f" question  {index}\n?") for index in range(50)
    )


def test_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="split must be one of .* got 'test'"):
        check_split("test")


def test_distinct_problems_stop_at_size_without_a_further_draw() -> None:
    stream = iter([_problem(text) for text in "aabAcd"])
    found = list(take_distinct(stream, 3, patience=10))
    assert [problem.question for problem in found] == ["a", "b", "c"]
    assert next(stream).question == "d"


def test_exhausted_stream_says_how_many_there_are() -> None:
    stream = (_problem(text) for text in cycle("abc"))
    with pytest.raises(ValueError, match=r"size=4 is too large: only 3 distinct validation"):
        list(take_distinct(stream, 4, patience=5))

from __future__ import annotations

import time

import pytest

from gtpo_lit.evaluation import vote_key


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("7", " 7. ", True),
        ("7", "7.0", True),
        ("007", "+7", True),
        ("1,024", "1024", True),
        ("-0.0", "0", True),
        ("-3", "3", False),
        ("0.10", ".1", True),
        (r"\dfrac{1}{2}", r"\frac{1}{2}", True),
        (r"\left(1, 2\right)", "(1,2)", True),
        (r"$x = 3$", "x=3", True),
        ("1/2", "0.5", False),
        ("1,02", "102", False),
        (r"\leftarrow", "arrow", False),
        ("a", "A", False),
    ],
)
def test_equal_votes(first: str, second: str, same: bool) -> None:
    assert (vote_key(first) == vote_key(second)) is same


def test_numbers_that_a_float_cannot_tell_apart_stay_apart() -> None:
    assert vote_key("100000000000000000001") != vote_key("100000000000000000002")


def test_a_hostile_answer_costs_its_length() -> None:
    started = time.monotonic()
    assert vote_key("9" * 100_000 + ".0") == "9" * 100_000
    assert len(vote_key("1," * 50_000)) == 100_000
    assert len(vote_key("{" * 100_000)) == 100_000
    assert time.monotonic() - started < 5

from __future__ import annotations

import random

import pytest

from gtpo_lit.evaluation import distinct_n, distinct_paths, solution_path


def test_distinct_n_equals_a_plain_count() -> None:
    stream = random.Random(0)
    for n in (1, 2, 3):
        samples = [
            [stream.randrange(4) for _ in range(stream.randrange(7))]
            for _ in range(stream.randrange(1, 6))
        ]
        grams = [tuple(ids[i : i + n]) for ids in samples for i in range(len(ids) - n + 1)]
        expected = len(set(grams)) / len(grams) if grams else 0.0
        assert distinct_n(samples, n) == pytest.approx(expected, abs=1e-15)


def test_distinct_n_at_the_edges() -> None:
    assert distinct_n([], 1) == distinct_n([()], 1) == distinct_n([(4,)], 2) == 0.0
    assert distinct_n([(7, 7, 7, 7)], 2) == pytest.approx(1 / 3)
    # No n-gram spans two samples.
    assert distinct_n([(1,), (2,)], 2) == 0.0
    with pytest.raises(ValueError, match="n=0"):
        distinct_n([(1,)], 0)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("3+4=7;7+8=5", "3 + 4 = 7, then 7 plus 8 makes 5.", True),
        ("The answer is 7. So 7.", "7", True),
        ("1,000 + 1 = 1,001", "1000+1=1001", True),
        ("3+4=7", "4+3=7", False),
        ("5", "3+4=7;7+8=5", False),
        ("0.5", "5", False),
        ("I do not know", "i DO not know!", True),
        ("I do not know", "no idea", False),
        ("", "...", True),
    ],
)
def test_which_responses_take_the_same_path(first: str, second: str, same: bool) -> None:
    assert (solution_path(first) == solution_path(second)) is same
    assert distinct_paths([first, second]) == (1 if same else 2)


def test_no_response_is_no_path() -> None:
    assert distinct_paths([]) == 0

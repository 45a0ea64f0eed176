from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from gtpo_lit.evaluation import (
    best_at_k,
    distinct_n,
    maj_at_k,
    outcome_of,
    powers_of_two,
    summarise,
)
from gtpo_lit.evaluation.estimates import best_table
from gtpo_lit.evaluation.outcome import number_votes
from gtpo_lit.types import Completion, Graded, Problem


def graded(
    problem_id: str,
    correct: list[bool],
    *,
    answers: list[str | None] | None = None,
    texts: list[str] | None = None,
    lengths: list[int] | None = None,
    question: str = "the same text",
) -> Graded:
    texts = texts or ["1"] * len(correct)
    lengths = lengths or [2] * len(correct)
    return Graded(
        problem=Problem(id=problem_id, question=question, answer="1"),
        completions=tuple(
            Completion(
                token_ids=tuple(range(length)),
                text=text,
                finish_reason="length" if length > 8 else "stop",
            )
            for text, length in zip(texts, lengths, strict=True)
        ),
        reward=tuple(2.0 * right for right in correct),
        correct=tuple(correct),
        answers=None if answers is None else tuple(answers),
    )


def test_rows_with_equal_text_stay_apart() -> None:
    """Report G3: 4 of 4 and 0 of 4; one merged group of 8 would say 0.985714 at k = 4."""
    rows = [graded("1", [True] * 4), graded("2", [False] * 4)]
    summary = summarise(map(outcome_of, rows))
    assert (summary.problems, summary.samples) == (2, 4)
    assert (summary.values["pass@1"], summary.values["pass@4"]) == (0.5, 0.5)


def test_each_problem_counts_once_and_weighs_alike() -> None:
    """Report G4: 5 problems padded to 8 for four ranks, only the first is solved."""
    five = [outcome_of(graded(str(i), [i == 0])) for i in range(5)]
    summary = summarise([*five, *five[:3]], draws=200)
    assert (summary.problems, summary.values["pass@1"]) == (5, 0.2)
    once = summarise(five, draws=200)
    assert summary.intervals["pass@1"] == once.intervals["pass@1"]
    assert once.intervals["pass@1"].low == 0.0
    # Uneven batches of 256, 256 and 10 with shares 0.7, 0.8 and 0.9, as near as whole rows come.
    right = [(256, 179), (256, 205), (10, 9)]
    rows = [
        outcome_of(graded(f"{batch}-{i}", [i < c]))
        for batch, (n, c) in enumerate(right)
        for i in range(n)
    ]
    assert summarise(rows).values["pass@1"] == pytest.approx(393 / 522, abs=1e-12)


def test_every_figure_by_hand() -> None:
    first = graded(
        "a",
        [True, False, False, True],
        answers=["7", "8", "8.0", "7"],
        texts=["3+4=7", "8", "8", "7"],
        lengths=[4, 2, 2, 9],
    )
    second = graded(
        "b",
        [False, False, True, False],
        answers=[None, "5", "6", None],
        texts=["?", "5", "6", "no"],
        lengths=[1, 1, 1, 4],
    )
    values = summarise(map(outcome_of, [first, second])).values
    best = best_at_k([1, 0, 0, 1], 2)[0], best_at_k([0, 0, 1, 0], 2)[0]
    distinct = distinct_n([range(4), range(2), range(2), range(9)], 2), distinct_n([range(4)], 2)
    assert values == {
        "pass@1": pytest.approx((0.5 + 0.25) / 2),
        "pass@2": pytest.approx((5 / 6 + 0.5) / 2),
        "pass@4": 1.0,
        "avg@4": pytest.approx((0.5 + 0.25) / 2),
        "maj@1": pytest.approx((0.5 + 0.25) / 2),
        # Blocks 7,8 | 8,7: the earlier of a tie wins. Blocks -,5 | 6,-.
        "maj@2": pytest.approx((0.5 + 0.5) / 2),
        # Two votes each: 7 came first. One vote each: 5 came first, and is wrong.
        "maj@4": pytest.approx((1.0 + 0.0) / 2),
        "best@2": pytest.approx(sum(best) / 2),
        "best@4": pytest.approx(
            (best_at_k([1, 0, 0, 1], 4)[0] + best_at_k([0, 0, 1, 0], 4)[0]) / 2
        ),
        "reward/mean": pytest.approx(2 * 3 / 8),
        "length/mean": pytest.approx((17 + 7) / 8),
        "truncated_fraction": pytest.approx(1 / 8),
        "answered_fraction": pytest.approx(6 / 8),
        "diversity/paths": pytest.approx((3 + 4) / 2),
        "diversity/correct_paths": pytest.approx((2 + 1) / 2),
        "diversity/distinct_1": pytest.approx((9 / 17 + 4 / 7) / 2),
        "diversity/distinct_2": pytest.approx(sum(distinct) / 2),
        "diversity/answers": pytest.approx((2 + 2) / 2),
    }


def test_without_answers_nothing_votes() -> None:
    rows = [graded("a", [True, False], answers=["1", "2"]), graded("b", [True, False])]
    names = summarise(map(outcome_of, rows)).values
    assert not [name for name in names if name.startswith(("maj@", "answered", "diversity/ans"))]
    assert names["pass@2"] == 1.0


def test_a_k_beyond_some_problems_samples_is_left_out() -> None:
    rows = [outcome_of(graded("a", [True] * 8)), outcome_of(graded("b", [False] * 3))]
    assert [n for n in summarise(rows).values if "pass" in n] == ["pass@1", "pass@2"]
    assert [n for n in summarise(rows, k=[3, 4]).values if "@" in n] == [
        "pass@3",
        "avg@3",
        "best@3",
    ]
    # The number of samples itself, where it is the same for all.
    assert [n for n in summarise(rows[:1]).values if "pass" in n][-1] == "pass@8"
    six = [outcome_of(graded("c", [True] * 5 + [False]))]
    assert [n for n in summarise(six).values if "pass" in n] == [f"pass@{k}" for k in (1, 2, 4, 6)]


def test_an_empty_set_and_a_problem_without_samples() -> None:
    assert summarise([]).values == {}
    assert summarise([outcome_of(graded("a", []))]).problems == 0


def test_the_order_of_problems_changes_no_digit() -> None:
    rows = [
        outcome_of(graded(f"p{i}", [i % 3 == 0, i % 2 == 0, True], answers=["1", str(i), "1"]))
        for i in range(30)
    ]
    expected = summarise(rows, draws=100)
    random.Random(1).shuffle(rows)
    assert summarise(rows, draws=100) == expected
    assert summarise(rows, draws=100, seed=1).intervals != expected.intervals


def test_an_interval_holds_its_value_and_is_one_of_problems() -> None:
    stream = random.Random(2)
    rows = [outcome_of(graded(str(i), [stream.random() < 0.4] * 4)) for i in range(100)]
    summary = summarise(rows, draws=2000)
    value, ends = summary.values["pass@1"], summary.intervals["pass@1"]
    half = 1.96 * np.sqrt(value * (1 - value) / 100)
    assert ends.low == pytest.approx(value - half, abs=0.015)
    assert ends.high == pytest.approx(value + half, abs=0.015)
    assert summary.intervals.keys() == summary.values.keys()


def test_powers_of_two() -> None:
    assert powers_of_two(0) == []
    assert powers_of_two(32) == [1, 2, 4, 8, 16, 32]
    assert powers_of_two(6) == [1, 2, 4, 6]


def test_votes_are_numbered_by_first_appearance() -> None:
    votes = number_votes(["8", "7", None, "7.0", "08"])
    assert votes == (0, 1, None, 1, 0)
    assert maj_at_k(votes, [False, True, False, True, False], 5) == 0.0
    assert maj_at_k(votes, [False, True, False, True, False], 4) == 1.0


def test_the_table_of_best_at_k_is_best_at_k() -> None:
    scores = [np.array([1.0, 0.0, 0.0, 1.0]), np.array([0.2, 0.9]), np.array([0.0, 0.0, 1.0, 0.0])]
    for k in (2, 3, 4):
        expected = [best_at_k(one, k)[0] for one in scores]
        np.testing.assert_allclose(best_table(scores, k), expected, atol=1e-12)


def test_terms_and_incidents_of_the_rewards() -> None:
    """Means over all samples for several terms, sums for what went wrong; one term says no more."""
    first, second = graded("a", [True, False]), graded("b", [False] * 3)
    first = dataclasses.replace(
        first,
        components={"math": (1.0, 0.0), "length": (0.5, 0.25)},
        incidents={"math/timeouts": (False, True), "math/errors": (False, False)},
    )
    second = dataclasses.replace(
        second,
        components={"math": (0.0,) * 3, "length": (0.0, 0.0, 1.0)},
        incidents={"math/timeouts": (True, True, False), "math/errors": (False, False, True)},
    )
    summary = summarise(map(outcome_of, [first, second]), draws=10)
    assert summary.values["reward/math/mean"] == pytest.approx(1 / 5)
    assert summary.values["reward/length/mean"] == pytest.approx(1.75 / 5)
    assert summary.values["reward/math/timeouts"] == 3.0
    assert summary.values["reward/math/errors"] == 1.0
    assert "reward/length/mean" in summary.intervals
    assert "reward/math/timeouts" not in summary.intervals
    alone = dataclasses.replace(first, components={"math": (1.0, 0.0)}, incidents={})
    named = summarise([outcome_of(alone)]).values
    assert [name for name in named if name.startswith("reward/")] == ["reward/mean"]

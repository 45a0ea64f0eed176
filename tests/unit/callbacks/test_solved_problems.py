from __future__ import annotations

import random

import pytest

from callbacks.solved_problems import SolvedProblems
from gtpo_lit.types import Completion, Graded, Problem


def graded(problem_id: str, correct: list[bool], *, lengths=None, reward=None) -> Graded:
    lengths = lengths or [1] * len(correct)
    return Graded(
        problem=Problem(id=problem_id, question="the same text", answer="1"),
        completions=tuple(
            Completion(token_ids=(0,) * n, text="", finish_reason="length" if n > 8 else "stop")
            for n in lengths
        ),
        reward=tuple(reward or map(float, correct)),
        correct=tuple(correct),
    )


def measure(*batches: list[Graded], k=None) -> dict[str, float]:
    metric = SolvedProblems(k)
    metric.update([])
    for batch in batches:
        metric.update(batch)
    return metric.compute()


def test_rows_with_the_same_text_stay_apart() -> None:
    values = measure([graded("1", [True] * 4), graded("2", [False] * 4)])
    assert (values["problems"], values["pass@1"], values["pass@4"]) == (2, 0.5, 0.5)


def test_a_problem_that_was_evaluated_twice_counts_once() -> None:
    problems = [graded(str(i), [i == 0]) for i in range(5)]
    padded = [problems[:2], problems[2:4], [problems[4], problems[0]], problems[1:3]]
    values = measure(*padded)
    assert (values["problems"], values["pass@1"]) == (5, 0.2)


def test_uneven_batches_weigh_by_problem() -> None:
    sizes = {256: 179, 255: 204, 10: 9}
    batches = [
        [graded(f"{size}-{i}", [i < right]) for i in range(size)] for size, right in sizes.items()
    ]
    assert measure(*batches)["pass@1"] == pytest.approx((179 + 204 + 9) / 521, abs=1e-12)


def test_unbiased_values_and_the_powers_of_two() -> None:
    values = measure([graded("a", [True] + [False] * 3), graded("b", [True, True, False, False])])
    assert {name: value for name, value in values.items() if "pass" in name} == {
        "pass@1": pytest.approx((0.25 + 0.5) / 2),
        "pass@2": pytest.approx((0.5 + 5 / 6) / 2),
        "pass@4": 1.0,
    }


def test_k_beyond_the_samples_is_left_out() -> None:
    batch = [graded("a", [True] * 8), graded("b", [False] * 3)]
    assert [name for name in measure(batch) if "pass" in name] == ["pass@1", "pass@2"]
    assert [name for name in measure(batch, k=[3, 4]) if "pass" in name] == ["pass@3"]


def test_length_truncation_and_reward_are_means_over_samples() -> None:
    values = measure(
        [
            graded("a", [True, False], lengths=[2, 9], reward=[1.5, 0.5]),
            graded("b", [True], lengths=[4], reward=[1.0]),
        ]
    )
    assert values["length/mean"] == 5.0
    assert values["truncated_fraction"] == pytest.approx(1 / 3)
    assert values["reward/mean"] == 1.0


def test_an_empty_set_has_no_value() -> None:
    assert measure() == {"problems": 0.0}


def test_the_order_of_problems_does_not_change_a_digit() -> None:
    problems = [
        graded(f"p{i}", [i % 3 == 0, i % 2 == 0, True], reward=[0.1 * i, 0.7, 1 / (i + 1)])
        for i in range(30)
    ]
    expected = measure(problems)
    random.Random(0).shuffle(problems)
    assert measure(problems[:11], problems[11:]) == expected

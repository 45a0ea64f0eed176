from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.evaluation import avg_at_k, best_at_k, maj_at_k, pass_at_k


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (4, 1, 1, 0.25),
        (4, 1, 2, 0.5),
        (4, 1, 4, 1.0),
        (10, 3, 5, 11 / 12),
        (16, 3, 8, 0.9),
        (8, 0, 8, 0.0),
        (8, 8, 8, 1.0),
    ],
)
def test_pass_at_k_known_values(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == expected


def test_pass_at_k_without_an_estimate_is_nan() -> None:
    assert math.isnan(pass_at_k(2, 0, 5))
    assert math.isnan(pass_at_k(2, 2, 5))
    assert math.isnan(pass_at_k(0, 0, 1))


@given(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(counts, data) -> None:
    n, c = counts
    k = data.draw(st.integers(1, n))
    subsets = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(
        sum(any(subset) for subset in subsets) / len(subsets), abs=1e-15
    )


def test_pass_at_k_on_sequences() -> None:
    values = pass_at_k([4, 4, 2], [1, 0, 2], 4)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1.0, 0.0, math.nan])
    np.testing.assert_array_equal(
        pass_at_k(4, np.array([[0, 1], [2, 4]]), 1), [[0, 0.25], [0.5, 1]]
    )
    np.testing.assert_array_equal(
        pass_at_k(torch.tensor([4, 4]), torch.tensor([1, 2]), 1), [0.25, 0.5]
    )
    assert pass_at_k([], [], 1).shape == (0,)


def test_pass_at_k_of_many_samples_stays_exact() -> None:
    assert pass_at_k(10_000, 1, 5_000) == 0.5


@pytest.mark.parametrize(
    ("n", "c", "k", "message"),
    [
        (4, 5, 1, "c=5"),
        (4, -1, 1, "c=-1"),
        (4, 1, 0, "k=0"),
        (4, 1, 1.5, "k=1.5"),
        (4, 0.5, 1, "c=0.5"),
        (-1, 0, 1, "n=-1"),
    ],
)
def test_pass_at_k_refuses(n, c, k, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pass_at_k(n, c, k)


def test_avg_at_k() -> None:
    assert avg_at_k([[1, 0, 0, 1], [1, 1, 0, 0]], 2) == 0.75
    assert avg_at_k([[1, 0, 0, 1], [1, 0, 0, 0]]) == 0.375
    assert avg_at_k([0.5, 1.0]) == 0.75
    assert math.isnan(avg_at_k([[1, 0]], 3))
    assert math.isnan(avg_at_k([]))
    with pytest.raises(ValueError, match="k=-1"):
        avg_at_k([[1.0]], -1)


def test_maj_at_k_takes_the_earliest_of_tied_answers() -> None:
    answers = ["8", "7", "7", "8"]
    correct = [False, True, True, False]
    assert maj_at_k(answers, correct, 3) == 1.0
    assert maj_at_k(answers, correct, 4) == 0.0
    assert maj_at_k(answers, correct, 1) == 0.0


def test_maj_at_k_ignores_samples_without_answer() -> None:
    assert maj_at_k([None, None, "7"], [False, False, True], 3) == 1.0
    assert maj_at_k([None, None], [False, False], 2) == 0.0
    assert math.isnan(maj_at_k(["7"], [True], 2))
    with pytest.raises(ValueError, match="2 answers for 1"):
        maj_at_k(["1", "2"], [True], 1)


def test_best_at_k_is_drawn_with_replacement() -> None:
    state = np.random.get_state()[1].copy()
    mean, spread = best_at_k([1, 0, 0, 0], 4)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    assert mean == pytest.approx(1 - 0.75**4, abs=3 * math.sqrt(0.684 * 0.316 / 1000))
    assert spread == pytest.approx(math.sqrt(mean * (1 - mean)), abs=1e-12)
    assert best_at_k([1, 0, 0, 0], 4) == (mean, spread)
    assert best_at_k([0.3], 7) == (pytest.approx(0.3), pytest.approx(0.0))


def test_best_at_k_equals_a_plain_loop() -> None:
    scores = [0.1, 0.9, 0.4]
    random = np.random.RandomState(3)
    best = [max(scores[i] for i in random.choice(3, size=2, replace=True)) for _ in range(50)]
    mean, spread = best_at_k(scores, 2, draws=50, seed=3)
    assert mean == pytest.approx(sum(best) / 50, abs=1e-12)
    assert spread == pytest.approx(np.std(best), abs=1e-12)

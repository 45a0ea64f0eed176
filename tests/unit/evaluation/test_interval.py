from __future__ import annotations

import numpy as np
import pytest

from gtpo_lit.evaluation import interval as interval_module
from gtpo_lit.evaluation import problem_bootstrap


def plain(numerator, denominator, draws, seed):
    """The same draws, problem by problem."""
    random = np.random.default_rng(seed)
    problems = len(numerator)
    ratios = []
    for _ in range(draws):
        drawn = random.integers(problems, size=problems)
        ratios.append(sum(numerator[i] for i in drawn) / sum(denominator[i] for i in drawn))
    return np.percentile(ratios, 2.5), np.percentile(ratios, 97.5)


def test_it_equals_a_plain_loop_whatever_the_chunk(monkeypatch) -> None:
    random = np.random.default_rng(5)
    above, below = random.random((7, 2)), random.integers(1, 5, (7, 2)).astype(float)
    found = problem_bootstrap(above, below, draws=60, seed=3)
    for column, ends in enumerate(found):
        low, high = plain(above[:, column], below[:, column], 60, 3)
        assert ends.low == pytest.approx(low, abs=1e-12)
        assert ends.high == pytest.approx(high, abs=1e-12)
    monkeypatch.setattr(interval_module, "_CHUNK", 20)
    for ends, again in zip(found, problem_bootstrap(above, below, draws=60, seed=3), strict=True):
        assert (again.low, again.high) == pytest.approx((ends.low, ends.high), abs=1e-12)


def test_a_share_of_many_problems_has_the_binomial_interval() -> None:
    solved = (np.arange(400) < 100).astype(float)[:, None]
    state = np.random.get_state()[1].copy()
    (ends,) = problem_bootstrap(solved, np.ones((400, 1)), draws=4000)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    half = 1.96 * np.sqrt(0.25 * 0.75 / 400)
    assert ends.low == pytest.approx(0.25 - half, abs=0.004)
    assert ends.high == pytest.approx(0.25 + half, abs=0.004)


def test_whole_problems_are_drawn_not_samples() -> None:
    # Two problems of 100 samples each, one all right and one all wrong: as samples the interval
    # would be about 0.43 to 0.57.
    (ends,) = problem_bootstrap(np.array([[100.0], [0.0]]), np.full((2, 1), 100.0), draws=500)
    assert (ends.low, ends.high) == (0.0, 1.0)


def test_the_edges() -> None:
    one = problem_bootstrap(np.array([[3.0]]), np.array([[4.0]]), draws=10)
    assert (one[0].low, one[0].high) == (0.75, 0.75)
    none = problem_bootstrap(np.empty((0, 2)), np.empty((0, 2)), draws=10)
    assert len(none) == 2
    assert np.isnan([none[0].low, none[1].high]).all()
    with pytest.raises(ValueError, match="draws=0"):
        problem_bootstrap(np.ones((2, 1)), np.ones((2, 1)), draws=0)
    with pytest.raises(ValueError, match="shapes"):
        problem_bootstrap(np.ones((2, 1)), np.ones((2, 2)))

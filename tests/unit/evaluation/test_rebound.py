from __future__ import annotations

import numpy as np
import pytest

from gtpo_lit.evaluation import entropy_rebound
from gtpo_lit.evaluation.rebound import heights, moving_mean, never_rising, noise_of

TIME = np.linspace(0, 1, 210)
MEANS = {
    "flat": np.ones(210),
    "falling": np.exp(-5 * TIME),
    "rebound": np.where(TIME < 0.4, 1 - 2 * TIME, 0.2 + 0.5 * (TIME - 0.4)),
}


def noise(seed: int, correlation: float, spread: float = 0.05, size: int = 210) -> np.ndarray:
    random = np.random.default_rng(seed)
    drawn = random.standard_normal(size) * spread
    for place in range(1, size):
        shock = np.sqrt(1 - correlation**2)
        drawn[place] = correlation * drawn[place - 1] + shock * drawn[place]
    return drawn


def found_share(kind: str, correlation: float, curves: int = 100) -> float:
    found = [
        entropy_rebound(range(210), MEANS[kind] + noise(seed, correlation), draws=200).found
        for seed in range(curves)
    ]
    return sum(found) / curves


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_noise_alone_seldom_passes_for_a_rebound(correlation: float) -> None:
    """A tenth at most, whether the level stays or falls; a tail of two tests at 5 % each."""
    assert found_share("flat", correlation) <= 0.1
    assert found_share("falling", correlation) <= 0.1


@pytest.mark.parametrize("size", [20, 40, 80])
def test_short_curves_are_no_rebounds_either(size: int) -> None:
    """Level, falling, and fallen at once, under noise that is correlated."""
    time = np.linspace(0, 1, size)
    for mean in (np.ones(size), np.exp(-5 * time), 0.3 + np.exp(-30 * time)):
        found = [
            entropy_rebound(range(size), mean + noise(seed, 0.5, size=size), draws=200).found
            for seed in range(60)
        ]
        assert sum(found) <= 6


@pytest.mark.parametrize(("correlation", "least"), [(0.0, 1.0), (0.5, 0.98), (0.8, 0.5)])
def test_a_rebound_is_found_in_noise(correlation: float, least: float) -> None:
    assert found_share("rebound", correlation) >= least


def test_a_made_curve_by_hand() -> None:
    """Down from 1 to 0.2 at step 100, up to 0.5 at step 160, then level."""
    down, up = np.linspace(1, 0.2, 101), np.linspace(0.2, 0.5, 61)[1:]
    curve = np.concatenate([down, up, np.full(49, 0.5)])
    found = entropy_rebound(range(210), curve, window=3)
    assert found.found
    assert (found.low_step, found.top_step) == (100, 160 + 1)
    assert found.start == pytest.approx(1 - 0.004)
    assert found.low == pytest.approx(0.2 + (0.008 + 0.005) / 3)
    assert found.top == pytest.approx(0.5)
    assert found.share == pytest.approx(found.height / (found.start - found.low))
    assert found.interval.low <= found.height <= found.interval.high


def test_intervals_hold_the_height_of_the_curve_behind_the_noise() -> None:
    truth = entropy_rebound(range(210), MEANS["rebound"], window=21, draws=10).height
    held = 0
    for seed in range(100):
        found = entropy_rebound(range(210), MEANS["rebound"] + noise(seed, 0.5), draws=200)
        held += found.interval.low <= truth <= found.interval.high
    assert held >= 85


def test_curves_without_noise() -> None:
    assert not entropy_rebound(range(20), [1.0] * 20).found
    rising = entropy_rebound(range(20), np.linspace(0, 1, 20))
    assert not rising.found
    assert np.isnan(rising.share)
    assert entropy_rebound(range(20), [1.0] * 20).height == 0


def test_noise_is_told_from_a_trend() -> None:
    correlation, spread = noise_of(5 * TIME + noise(0, 0.6, spread=0.3))
    assert correlation == pytest.approx(0.6, abs=0.1)
    assert spread == pytest.approx(0.3, abs=0.05)


def test_parts_equal_plain_loops() -> None:
    curve = np.random.default_rng(0).standard_normal(30)
    wanted = [curve[max(0, i - 2) : i + 3].mean() for i in range(30)]
    assert moving_mean(curve[None], 5)[0] == pytest.approx(wanted, abs=1e-12)
    low = min(range(30), key=lambda i: curve[i])
    assert heights(curve[None])[0] == pytest.approx(max(curve[low:]) - curve[low], abs=1e-12)
    fitted = never_rising(curve)
    assert (np.diff(fitted) <= 1e-12).all()
    # Of all falling step functions with the same blocks, the means are nearest.
    for level in np.unique(fitted):
        assert curve[fitted == level].mean() == pytest.approx(level, abs=1e-12)


def test_the_global_random_state_is_left_alone() -> None:
    np.random.seed(3)
    before = np.random.get_state()[1].copy()
    first = entropy_rebound(range(30), noise(0, 0, size=30), seed=4)
    assert (np.random.get_state()[1] == before).all()
    assert first == entropy_rebound(range(30), noise(0, 0, size=30), seed=4)


@pytest.mark.parametrize(
    ("steps", "values", "options", "words"),
    [
        (range(7), [1.0] * 7, {}, "8 steps or more, got 7"),
        (range(9), [1.0] * 8, {}, "shapes"),
        ([0, 2, 1, *range(3, 9)], [1.0] * 9, {}, "increase"),
        (range(9), [1.0] * 8 + [float("nan")], {}, "finite"),
        (range(9), [1.0] * 9, {"window": 4}, "got 4"),
        (range(9), [1.0] * 9, {"window": 11}, "the 9 steps, got 11"),
    ],
)
def test_bad_curves(steps, values, options, words) -> None:
    with pytest.raises(ValueError, match=words):
        entropy_rebound(steps, values, **options)

"""Factors counted in optimiser steps."""

import pytest

from gtpo_lit.schedule import Schedule


def test_warm_up_is_linear_and_ends_at_the_full_rate():
    schedule = Schedule(warmup_steps=4)
    assert [schedule.factor(step, total_steps=9) for step in range(6)] == [0.25, 0.5, 0.75, 1, 1, 1]


def test_cosine_ends_at_its_final_fraction_and_stays_there():
    schedule = Schedule(kind="cosine", final_fraction=0.2)
    assert schedule.factor(0, total_steps=10) == 1.0
    assert schedule.factor(5, total_steps=10) == pytest.approx(0.6)
    assert schedule.factor(10, total_steps=10) == pytest.approx(0.2)
    assert schedule.factor(50, total_steps=10) == pytest.approx(0.2)


@pytest.mark.parametrize("wrong", [{"warmup_steps": -1}, {"final_fraction": 1.5}])
def test_impossible_numbers_are_named(wrong):
    (name, value), *_ = wrong.items()
    with pytest.raises(ValueError, match=f"schedule.{name} .*got {value}"):
        Schedule(**wrong)

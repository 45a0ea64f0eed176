from __future__ import annotations

import warnings
from typing import Any

import pytest

from gtpo_lit.rollout.reward_metrics import (
    ConstantRewards,
    RewardReport,
    TermScores,
    merged,
    report,
    reward_metrics,
)
from gtpo_lit.types import Graded, Problem


def graded(incidents: Any = None, **components: tuple[float, ...]) -> Graded:
    return Graded(
        problem=Problem(id="0", question="q", answer="4"),
        completions=(),
        reward=(),
        correct=(),
        components=components,
        incidents=incidents or {},
    )


def step(**scores: tuple[float, ...]) -> RewardReport:
    return report([graded(**scores)])


def test_means_and_counts_over_ranks_by_hand() -> None:
    first = report(
        [
            graded({"math/timeouts": (True, False)}, math=(1.0, 0.0), length=(0.5, 0.25)),
            graded({"math/timeouts": (True, True)}, math=(1.0, 1.0), length=(0.0, 0.0)),
        ]
    )
    second = report([graded({"math/timeouts": (False, False)}, math=(0.0, 0.0), length=(1, 2))])
    assert first.terms["math"] == TermScores(total=3.0, count=4, least=0.0, most=1.0)
    whole = merged([first, second])
    assert whole.terms["length"] == TermScores(total=3.75, count=6, least=0.0, most=2.0)
    assert reward_metrics(whole) == {
        "train/reward/math/mean": 0.5,
        "train/reward/length/mean": 0.625,
        "train/reward/math/timeouts": 3.0,
    }
    assert merged([first, report([])]) == first


def test_steps_with_one_score_are_counted() -> None:
    watch = ConstantRewards(alarm=99)
    steps = [(1, 1), (1, 1), (0, 0), (0, 0), (0, 1), (1, 1), (1, 1)]
    counted = [watch.update(step(math=pair))["train/reward/math/constant_steps"] for pair in steps]
    assert counted == [1, 2, 1, 2, 0, 1, 2]


def test_the_alarm_sounds_once_for_each_term() -> None:
    watch = ConstantRewards(alarm=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            watch.update(step(math=(0.0, 0.0), form=(0.0, 1.0)))
    with pytest.warns(
        UserWarning, match="reward 'math' has been 0 for .* the last 3 steps"
    ) as seen:
        watch.update(step(math=(0.0, 0.0), form=(0.0, 1.0)))
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(9):
            watch.update(step(math=(0.0, 0.0), form=(0.0, 1.0)))


def test_a_resumed_run_counts_on() -> None:
    first = ConstantRewards(alarm=3)
    for _ in range(2):
        first.update(step(math=(0.5, 0.5)))
    second = ConstantRewards(alarm=3)
    second.load_state_dict(first.state_dict())
    with pytest.warns(UserWarning, match="the last 3 steps"):
        assert second.update(step(math=(0.5, 0.5))) == {"train/reward/math/constant_steps": 3.0}
    third = ConstantRewards(alarm=3)
    third.load_state_dict(second.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert third.update(step(math=(0.5, 0.5))) == {"train/reward/math/constant_steps": 4.0}

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from gtpo_lit.tasks import ExactReward, FunctionReward, RewardTerm, WeightedReward
from gtpo_lit.tasks.rewards import Limits
from gtpo_lit.types import Problem

SLOW_MACHINE = Limits(seconds=60.0)


@pytest.fixture(autouse=True)
def importable() -> Iterator[None]:
    # Workers take over the path as it is when they start.
    sys.path.insert(0, str(Path(__file__).parent))
    yield
    sys.path.remove(str(Path(__file__).parent))


@pytest.fixture(scope="module", autouse=True)
def own_pool() -> Iterator[None]:
    """Workers of the shared pool that know this folder."""
    from gtpo_lit.tasks.pool import worker_pool

    sys.path.insert(0, str(Path(__file__).parent))
    kept = dict(worker_pool._shared)
    worker_pool._shared.clear()
    yield
    worker_pool._close_shared()
    worker_pool._shared.update(kept)
    sys.path.remove(str(Path(__file__).parent))


def test_a_function_by_its_path_with_arguments() -> None:
    for path in ("own_rewards:share_of_letters", "own_rewards.share_of_letters"):
        reward = FunctionReward(path, arguments={"letter": "b"}, limits=SLOW_MACHINE)
        assert reward.score(["abab", "aa", ""], ["", "", ""]) == [0.5, 0.0, 0.0]
    thinking = FunctionReward("own_rewards:share_of_letters", after_think=True, limits=SLOW_MACHINE)
    assert thinking.score(["<think>b</think>a", "<think>aa", "ab"], [""] * 3) == [1.0, 0.0, 0.5]


def test_one_that_raises_gives_zero_and_is_shown_once() -> None:
    reward = FunctionReward("own_rewards:fails_on_bread", limits=SLOW_MACHINE)
    with pytest.warns(UserWarning, match=r"(?s)FunctionReward: .*KeyError: 'no bread'") as caught:
        assert reward.score(["a", "bread", "b", "bread"], ["a"] * 4) == [1.0, 0.0, 0.0, 0.0]
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert reward.score(["bread"], ["a"]) == [0.0]
    assert reward.counts == {"timeouts": 0, "errors": 3}


def test_one_that_raises_ends_the_run_if_asked() -> None:
    reward = FunctionReward("own_rewards:fails_on_bread", on_error="stop", limits=SLOW_MACHINE)
    assert reward.score(["a"], ["a"]) == [1.0]
    with pytest.raises(RuntimeError, match="KeyError: 'no bread'"):
        reward.score(["bread"], ["a"])


def test_one_that_hangs_is_counted_under_its_term() -> None:
    hanging = FunctionReward("own_rewards:hangs", limits=Limits(seconds=0.5))
    reward = WeightedReward(ExactReward(), others=[RewardTerm(name="slow", reward=hanging)])
    problems = [Problem(id=str(i), question="q", answer="4") for i in range(2)]
    scores = reward.grade(["4", "5"], problems)
    assert scores.total == (1.0, 0.0)
    assert scores.components == {"accuracy": (1.0, 0.0), "slow": (0.0, 0.0)}
    assert scores.incidents == {"slow/timeouts": (True, True), "slow/errors": (False, False)}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("share_of_letters", "must be an import path"),
        ("__main__:f", "must be an import path"),
        ("no_such_module:f", "cannot be imported: No module named 'no_such_module'"),
        ("own_rewards:no_such", "has no function 'no_such'"),
        ("own_rewards:time", "has no function 'time'"),
        ("own_rewards:needs_more", "cannot be called with completion, answer: missing .* 'key'"),
    ],
)
def test_unusable_functions_are_refused_at_once(function: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FunctionReward(function)


def test_unknown_arguments_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="completion, answer, lettre: got an unexpected"):
        FunctionReward("own_rewards:share_of_letters", arguments={"lettre": "b"})


def test_whatever_goes_wrong_is_an_error_of_that_answer_alone() -> None:
    wrong = ["raises", "leaves", "dies", "eats", "says nothing", "says a word", "says nan"]
    completions = [text for one in wrong for text in ("fine", one)] + ["fine"]
    limits = Limits(seconds=60.0, memory_mb=300)
    bad = FunctionReward("own_rewards:misbehaves", limits=limits, workers=1)
    reward = WeightedReward(ExactReward(), others=[RewardTerm(name="bad", reward=bad)])
    problems = [Problem(id=str(i), question="q", answer="fine") for i in range(len(completions))]
    with pytest.warns(UserWarning, match="ZeroDivisionError: nothing to divide by") as caught:
        scores = reward.grade(completions, problems)
    assert len(caught) == 1
    assert "Traceback" in str(caught[0].message)
    fine = tuple(text == "fine" for text in completions)
    assert scores.components["bad"] == tuple(map(float, fine))
    assert scores.incidents["bad/errors"] == tuple(not one for one in fine)
    assert scores.incidents["bad/timeouts"] == (False,) * len(completions)
    assert bad.counts == {"timeouts": 0, "errors": len(wrong)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bad.score(["raises", "fine"], ["", ""]) == [0.0, 1.0]


@pytest.mark.parametrize("what", ["raises", "says nan", "dies"])
def test_any_error_ends_the_run_if_asked(what: str) -> None:
    reward = FunctionReward(
        "own_rewards:misbehaves", on_error="stop", limits=SLOW_MACHINE, workers=1
    )
    with pytest.raises(RuntimeError, match=r"FunctionReward: 'own_rewards:misbehaves' failed"):
        reward.score(["fine", what], ["", ""])


def test_the_first_time_out_is_said_once() -> None:
    hanging = FunctionReward("own_rewards:hangs", limits=Limits(seconds=0.5))
    with pytest.warns(UserWarning, match=r"'own_rewards:hangs' took longer than .* = 0.5") as said:
        scores = [hanging.score(["a"], ["a"]) for _ in range(2)]
    assert scores == [[0.0], [0.0]]
    assert len(said) == 1
    assert hanging.counts == {"timeouts": 2, "errors": 0}

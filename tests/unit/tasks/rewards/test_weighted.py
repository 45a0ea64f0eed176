from __future__ import annotations

import math
from pathlib import Path

import pytest
from jsonargparse import ArgumentParser

from gtpo_lit.tasks.rewards import (
    ExactReward,
    FormatReward,
    Reward,
    RewardTerm,
    WeightedReward,
    chosen_reward,
)
from gtpo_lit.types import Problem


class Fixed(Reward):
    """Gives the scores that it was made with."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = scores

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        return self.scores


def _problems(number: int) -> list[Problem]:
    return [Problem(id=f"p{i}", question="q", answer="4") for i in range(number)]


def test_sum_and_correct_by_hand() -> None:
    reward = WeightedReward(
        ExactReward(extract="last_number"),
        accuracy_weight=2.0,
        others=[
            RewardTerm(name="format", reward=FormatReward("=.*"), weight=0.25),
            RewardTerm(name="length", reward=Fixed([3.0, 2.0, 1.0]), weight=-0.5),
        ],
    )
    scores = reward.grade(["=4", "4", "=5"], _problems(3))
    #                2 * accuracy + 0.25 * format - 0.5 * length
    assert scores.total == (2 + 0.25 - 1.5, 2 + 0 - 1.0, 0 + 0.25 - 0.5)
    assert scores.accuracy == (1.0, 1.0, 0.0)
    assert scores.correct == (True, True, False)
    assert scores.components == {
        "accuracy": (1.0, 1.0, 0.0),
        "format": (1.0, 0.0, 1.0),
        "length": (3.0, 2.0, 1.0),
    }
    assert list(scores.components) == ["accuracy", "format", "length"]


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.9])
def test_correct_is_accuracy_above_the_threshold_whatever_the_weights(threshold: float) -> None:
    accuracy = [0.0, 0.5, 0.51, 0.9, 1.0]
    bonus = RewardTerm(name="bonus", reward=Fixed([100.0] * 5), weight=7.0)
    for weight in (-1.0, 0.0, 3.0):
        reward = WeightedReward(Fixed(accuracy), weight, [bonus], correct_threshold=threshold)
        correct = reward.grade(["x"] * 5, _problems(5)).correct
        assert correct == tuple(score > threshold for score in accuracy)


def test_no_completions_give_no_scores() -> None:
    scores = WeightedReward(ExactReward()).grade([], [])
    assert (scores.total, scores.correct, scores.components) == ((), (), {"accuracy": ()})


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0], r"reward 'bonus' \(Fixed\) gave 1 scores for 2 completions"),
        ([1.0, 0.0, 0.0], r"reward 'bonus' \(Fixed\) gave 3 scores for 2 completions"),
        ([1.0, math.nan], r"reward 'bonus' \(Fixed\) gave nan for completion 1 of problem 'p1'"),
        ([math.inf, 0.0], r"reward 'bonus' \(Fixed\) gave inf for completion 0 of problem 'p0'"),
    ],
)
def test_bad_scores_name_their_reward(scores: list[float], message: str) -> None:
    reward = WeightedReward(ExactReward(), others=[RewardTerm(name="bonus", reward=Fixed(scores))])
    with pytest.raises(ValueError, match=message):
        reward.grade(["4", "5"], _problems(2))


def test_bad_options_are_named() -> None:
    term = RewardTerm(name="a", reward=ExactReward())
    for others, repeated in (
        ([term, term], "a"),
        ([RewardTerm(name="accuracy", reward=ExactReward())], "accuracy"),
    ):
        with pytest.raises(ValueError, match=rf"others: .*\['{repeated}'\] is repeated"):
            WeightedReward(ExactReward(), others=others)
    with pytest.raises(ValueError, match="weight of reward 'a' must be finite, got nan"):
        RewardTerm(name="a", reward=ExactReward(), weight=math.nan)
    with pytest.raises(ValueError, match="name of a reward term must be a plain word, got 'a/b'"):
        RewardTerm(name="a/b", reward=ExactReward())
    with pytest.raises(ValueError, match="accuracy_weight must be finite, got inf"):
        WeightedReward(ExactReward(), accuracy_weight=math.inf)
    for threshold in (-0.1, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"correct_threshold must be in \[0, 1\), got"):
            WeightedReward(ExactReward(), correct_threshold=threshold)
    with pytest.raises(ValueError, match="1 completions but 2 problems"):
        WeightedReward(ExactReward()).grade(["4"], _problems(2))


def test_yaml_builds_it_and_help_explains_it(tmp_path: Path) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--config", action="config")
    parser.add_class_arguments(WeightedReward, "reward")
    file = tmp_path / "reward.yaml"
    file.write_text(
        """
reward:
  accuracy:
    class_path: gtpo_lit.tasks.rewards.ExactReward
    init_args: {extract: last_equals}
  others:
    - name: format
      weight: 0.25
      reward:
        class_path: gtpo_lit.tasks.FormatReward
        init_args: {pattern: "[0-9]"}
"""
    )
    reward = parser.instantiate(parser.parse_args([f"--config={file}"])).reward
    assert reward.grade(["4", "1+3=4"], _problems(2)).total == (1.25, 1.0)
    assert "a response is correct if its accuracy score is above this" in " ".join(
        parser.format_help().split()
    )


class SlowlyGrowingReward(Fixed):
    """For its name."""


def test_terms_are_called_after_their_class() -> None:
    for reward, name in (
        (ExactReward(), "exact"),
        (SlowlyGrowingReward([]), "slowly_growing"),
        (Fixed([]), "fixed"),
    ):
        assert RewardTerm(reward=reward).name == name


def test_a_list_of_rewards_with_one_that_decides() -> None:
    reward = chosen_reward(
        None,
        [
            RewardTerm(reward=FormatReward("=.*"), weight=0.5),
            RewardTerm(reward=ExactReward(extract="last_number"), weight=2.0, accuracy=True),
        ],
    )
    scores = reward.grade(["=4", "=5", "4"], _problems(3))
    assert scores.total == (2.5, 0.5, 2.0)
    assert scores.correct == (True, False, True)
    assert scores.components == {"exact": (1.0, 0.0, 1.0), "format": (1.0, 1.0, 0.0)}
    assert scores.incidents == {}
    alone = chosen_reward(None, [RewardTerm(reward=Fixed([1.0, 0.0]), name="mine")])
    assert alone.grade(["a", "b"], _problems(2)).components == {"mine": (1.0, 0.0)}
    assert chosen_reward(alone, None) is alone


def test_rewards_that_do_not_say_which_decides_are_refused() -> None:
    exact, shape = ExactReward(), FormatReward("x")
    terms = [RewardTerm(reward=exact), RewardTerm(reward=shape)]
    with pytest.raises(ValueError, match=r"exactly one .* \[\] of \['exact', 'format'\] have it"):
        chosen_reward(None, terms)
    both = [RewardTerm(reward=each, accuracy=True) for each in (exact, shape)]
    with pytest.raises(ValueError, match=r"\['exact', 'format'\] of \['exact', 'format'\]"):
        chosen_reward(None, both)
    for rewards in (None, []):
        with pytest.raises(ValueError, match=r"set data\.rewards .* not neither"):
            chosen_reward(None, rewards)
    with pytest.raises(ValueError, match="not both"):
        chosen_reward(WeightedReward(exact), terms)

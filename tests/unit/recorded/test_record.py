"""A recorded step from rollouts and graded completions."""

import runpy
from pathlib import Path

import pytest

from gtpo_lit.algorithms import GRPO, GRPOS, GTPO
from gtpo_lit.recorded import record_step, sampled_rows
from gtpo_lit.types import Completion, Graded, Problem

made = runpy.run_path(str(Path(__file__).with_name("made_step.py")))


def test_rows_follow_the_graded_completions():
    done = [Completion(token_ids=(1,), text=text, finish_reason="stop") for text in "xyz"]
    graded = [
        Graded(
            problem=Problem(id="s/1", question="?", answer="4", source="s"),
            completions=tuple(done[:2]),
            reward=(1.0, 0.0),
            correct=(True, False),
            answers=("4", None),
        ),
        Graded(
            problem=Problem(id="s/2", question="?", answer="5"),
            completions=(done[2],),
            reward=(0.0,),
            correct=(False,),
        ),
    ]
    assert sampled_rows(graded) == [
        ("s/1", "s", "4", 0, "x", "4"),
        ("s/1", "s", "4", 1, "y", None),
        ("s/2", "", "5", 0, "z", None),
    ]


def test_shaped_rewards_of_sequences_stand_at_their_tokens():
    step = made["make_step"](GRPOS(beta1=1.0, beta2=0.5))
    # Each side has one member, whose share is 1: 1 * reward + 0.5 * 1 and -1 - 0.5 * 1.
    assert step.shaped.tolist() == pytest.approx([1.5, -1.5, -1.5, 1.6])
    assert step.token_shaped[1].tolist() == [-1.5, -1.5, 0.0, -1.5]
    assert step.algorithm == "gtpo_lit.algorithms.grpo_s.GRPOS"
    assert step.settings["beta2"] == 0.5
    assert made["make_step"](GRPO()).token_shaped is None


def test_a_lone_member_of_a_side_takes_all_of_its_mass():
    step = made["make_step"](GTPO(alpha1=0.9, alpha2=0.1))
    assert step.token_shaped[0].tolist() == pytest.approx([1.0, 1.0, 1.0, 0.0])
    assert step.token_shaped[3].tolist() == pytest.approx([1.09, 1.09, 1.09, 1.09])
    assert step.token_advantages[1, 2] == 0.0


def test_rows_of_another_step_are_refused():
    rollouts = made["rollouts_of"]()
    options = {"step": 3, "algorithm": GRPO(), "decode": made["decode"]}
    with pytest.raises(ValueError, match="RL step 3 holds 4 sequences .* 3 graded"):
        record_step(rollouts.replace(advantages=rollouts.reward), made["sampled"](3), **options)
    with pytest.raises(ValueError, match="advantages: False"):
        record_step(rollouts, made["sampled"](), **options)

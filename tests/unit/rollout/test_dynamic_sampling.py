"""Steps are filled with mixed groups by accuracy, in order, without losing a problem."""

import pytest

from gtpo_lit.rollout.collector import Drawn
from gtpo_lit.rollout.dynamic_sampling import DynamicSampling, fill_step, is_mixed
from gtpo_lit.rollout.problem_stream import ProblemStream
from gtpo_lit.types import Graded, Problem

MIXED, RIGHT, WRONG = (True, False), (True, True), (False, False)


class Endless:
    """Problems named by their position, and what their groups turn out to be."""

    def __init__(self, outcomes, lost=()):
        self.outcomes, self.lost = outcomes, lost
        self.rounds = []

    def draw(self, position, count, *, first_place):
        self.rounds.append((position, count, first_place))
        return [
            Drawn(
                problem=Problem(id=str(position + at), question="", answer=""),
                prompt_ids=(1,),
                place=first_place + at,
            )
            for at in range(count)
        ]

    def sample(self, drawn):
        answered = [item for item in drawn if int(item.problem.id) not in self.lost]
        return [(item, self._grade(item)) for item in answered]

    def _grade(self, item):
        correct = self.outcomes[int(item.problem.id) % len(self.outcomes)]
        # Shaped rewards differ inside every group; only accuracy may decide.
        return Graded(problem=item.problem, completions=(), reward=(0.25, 1.0), correct=correct)


def fill(outcomes, *, wanted, max_rounds=10, position=0, lost=()):
    source = Endless(outcomes, lost)
    filled = fill_step(
        source,
        position,
        wanted=wanted,
        sample=source.sample,
        rule=DynamicSampling(max_rounds=max_rounds),
    )
    return source, filled, [drawn.problem.id for drawn, _ in filled.groups]


def test_accuracy_decides_not_the_reward():
    problem = Problem(id="", question="", answer="")
    grade = lambda correct: Graded(  # noqa: E731
        problem=problem, completions=(), reward=(0.1, 0.9), correct=correct
    )
    assert [is_mixed(grade(correct)) for correct in (MIXED, RIGHT, WRONG)] == [True, False, False]


def test_a_step_of_mixed_groups_takes_one_round():
    source, filled, ids = fill([MIXED], wanted=3, position=6)
    assert source.rounds == [(6, 3, 0)]
    assert ids == ["6", "7", "8"]
    assert filled.position == 9
    assert filled.metrics["train/drawn/rounds"] == 1
    assert filled.metrics["train/drawn/missing_groups"] == 0


def test_refilling_draws_by_the_share_that_was_mixed_and_puts_the_rest_back():
    # 0 right, 1 mixed, 2 wrong, 3 mixed, ...: half of the problems are mixed.
    source, filled, ids = fill([RIGHT, MIXED, WRONG, MIXED], wanted=4)
    # 2 of 4 are mixed, so the 2 that are missing want 4 more.
    assert source.rounds == [(0, 4, 0), (4, 4, 4)]
    assert ids == ["1", "3", "5", "7"]
    assert [drawn.place for drawn, _ in filled.groups] == [1, 3, 5, 7]
    assert filled.position == 8
    assert filled.metrics == {
        "train/drawn/rounds": 2.0,
        "train/drawn/missing_groups": 0.0,
        "train/drawn/unused_groups": 0.0,
        "train/drawn/groups": 8.0,
        "train/drawn/mixed_fraction": 0.5,
        "train/drawn/all_correct_fraction": 0.25,
        "train/drawn/all_wrong_fraction": 0.25,
        "train/drawn/correct_fraction": 0.5,
        "train/drawn/reward_mean": 0.625,
    }


def test_groups_beyond_the_last_one_needed_go_back_to_the_stream():
    outcomes = [WRONG, WRONG, MIXED] + [MIXED] * 9
    source, filled, ids = fill(outcomes, wanted=3)
    # One of three was mixed: two are missing, six are expected to hold them, three is the most.
    assert source.rounds == [(0, 3, 0), (3, 3, 3)]
    assert ids == ["2", "3", "4"]
    assert filled.metrics["train/drawn/unused_groups"] == 1
    assert filled.position == 5


def test_the_bound_ends_the_search_with_what_there_is():
    source, filled, ids = fill([WRONG] * 5 + [MIXED], wanted=4, max_rounds=2)
    assert len(source.rounds) == 2
    assert ids == ["5"]
    assert filled.metrics["train/drawn/missing_groups"] == 3
    assert filled.position == 8


def test_what_the_engine_could_not_answer_is_passed_over():
    source, filled, ids = fill([MIXED], wanted=3, lost=(1,))
    # Two of three came back mixed: one is missing, and is expected in two draws.
    assert source.rounds == [(0, 3, 0), (3, 2, 3)]
    assert ids == ["0", "2", "3"]
    assert filled.position == 4
    assert filled.metrics["train/drawn/groups"] == 4
    source, filled, ids = fill([MIXED], wanted=1, max_rounds=2, lost=(0, 1))
    assert (ids, filled.position, filled.metrics["train/drawn/groups"]) == ([], 2, 0)


def test_without_any_mixed_group_the_first_is_kept():
    source, filled, ids = fill([WRONG, RIGHT], wanted=2, max_rounds=3)
    assert source.rounds == [(0, 2, 0), (2, 2, 2), (4, 2, 4)]
    assert ids == ["0"]
    assert filled.metrics["train/drawn/missing_groups"] == 2
    assert filled.position == 6


def test_every_problem_of_a_small_set_keeps_being_drawn():
    problems = tuple(Problem(id=str(i), question="", answer="") for i in range(3))
    stream = ProblemStream(problems=problems, prompts=((1,), (2,), (3,)), seed=4)
    source = Endless([MIXED])
    position, seen = 0, []
    for _ in range(3):
        filled = fill_step(stream, position, wanted=2, sample=source.sample, rule=DynamicSampling())
        position = filled.position
        seen += [drawn.problem.id for drawn, _ in filled.groups]
    assert sorted(seen[:3]) == sorted(seen[3:]) == ["0", "1", "2"]


def test_at_least_one_round():
    with pytest.raises(ValueError, match=r"data\.dynamic_sampling\.max_rounds .* got 0"):
        DynamicSampling(max_rounds=0)

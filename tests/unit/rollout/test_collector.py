from types import SimpleNamespace

import pytest

from gtpo_lit.rollout.collector import Collector, Drawn
from gtpo_lit.rollout.exchange import gather_rollouts
from gtpo_lit.tasks import ExactReward, WeightedReward
from gtpo_lit.types import Completion, Problem, SamplingSettings


class Some:
    """Answers the requests for the prompts it knows, each sample with its own text."""

    def __init__(self, known):
        self.known, self.rested = known, 0

    def generate(self, requests, settings):
        return [
            [
                Completion(token_ids=(9,), text=text, finish_reason="stop")
                for text, _ in zip(self.known.get(request.prompt_ids[0], ()), request.seeds,
                                   strict=False)
            ]
            for request in requests
        ]  # fmt: skip

    def rest(self):
        self.rested += 1


def drawn(*answers):
    return [
        Drawn(
            problem=Problem(id=str(place), question="?", answer=answer),
            prompt_ids=(place,),
            place=place,
        )
        for place, answer in enumerate(answers)
    ]


@pytest.fixture
def collector():
    reward = WeightedReward(accuracy=ExactReward(extract="whole"))
    sampler = Some({0: ("1", "7"), 2: ("3", "3")})
    return Collector(sampler=sampler, reward=reward, seed=0, rows_per_forward=1)


def test_a_problem_without_an_answer_is_left_out_and_the_others_keep_their_scores(collector):
    answered, completions = collector.sample(
        drawn("1", "2", "3", "4"), SamplingSettings(), samples=2, stream=("train", 0)
    )
    assert [item.place for item in answered] == [0, 2]
    graded = collector.grade(answered, completions)
    assert [item.problem.id for item in graded] == ["0", "2"]
    assert [item.correct for item in graded] == [(True, False), (True, True)]
    assert [item.reward for item in graded] == [(1.0, 0.0), (1.0, 1.0)]


def test_an_engine_rests_when_a_validation_set_is_through(collector):
    loader = collector.grading_loader(
        drawn("1", "2", "3"),
        SamplingSettings(),
        samples=2,
        stream=("validation", "a"),
        batch=2,
        before=lambda: None,
    )
    assert [[item.problem.id for item in batch] for batch in loader] == [["0"], ["2"]]
    assert collector.sampler.rested == 1


def test_a_rank_without_problems_still_takes_part_in_the_push(collector):
    pushed = []
    loader = collector.grading_loader(
        [],
        SamplingSettings(),
        samples=2,
        stream=("validation", "a"),
        batch=2,
        before=lambda: pushed.append(True),
    )
    assert len(loader) == 1
    assert list(loader) == [[]]
    assert pushed == [True]


def test_a_rank_without_completions_adds_none(collector, monkeypatch):
    part = SimpleNamespace(to=lambda device: "rows")
    monkeypatch.setattr("gtpo_lit.rollout.exchange.all_gather", lambda value: [None, value, None])
    monkeypatch.setattr("gtpo_lit.rollout.exchange.concatenate", lambda parts: parts)
    assert gather_rollouts(part) == ["rows"]
    with pytest.raises(RuntimeError, match="no prompt of the RL step was answered"):
        collector.collect([], [], SamplingSettings(), None, None)

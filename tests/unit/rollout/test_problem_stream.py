"""Prompts over the limit are dropped whole and counted, or refused; shares cover every problem."""

import pytest

from gtpo_lit.rollout import problem_stream
from gtpo_lit.rollout.problem_stream import ProblemStream, share_of
from gtpo_lit.tasks import ChainSource


def _render(limit, long_prompts="drop"):
    source = ChainSource(size=6)
    lengths = {source.problem(index).id: index + 1 for index in range(6)}
    return ProblemStream.render(
        source,
        lambda problem: (7,) * lengths[problem.id],
        max_prompt_length=limit,
        long_prompts=long_prompts,
        option="data.problems",
    )


def test_long_prompts_are_dropped_and_their_number_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(problem_stream, "rank_zero_info", said.append)
    stream = _render(4)
    assert [len(prompt) for prompt in stream.prompts] == [1, 2, 3, 4]
    assert len(stream) == len(stream.problems) == 4
    assert said == [
        "data.problems: 2 of 6 problems dropped, their prompts are longer than "
        "data.max_prompt_length = 4 tokens"
    ]


def test_nothing_is_said_where_all_fit(monkeypatch):
    said = []
    monkeypatch.setattr(problem_stream, "rank_zero_info", said.append)
    assert len(_render(6)) == len(_render(None)) == 6
    assert said == []


def test_long_prompts_can_be_an_error_and_none_left_always_is():
    with pytest.raises(ValueError, match="2 of 6 prompts are longer than"):
        _render(4, "error")
    with pytest.raises(ValueError, match="data.problems has no usable problem: 6 were dropped"):
        _render_none()


def _render_none():
    return ProblemStream.render(
        ChainSource(size=6),
        lambda problem: (7, 7),
        max_prompt_length=1,
        long_prompts="drop",
        option="data.problems",
    )


def test_a_source_smaller_than_a_step_is_refused_with_both_numbers():
    with pytest.raises(ValueError, match=r"4 usable .*problems_per_step = 8"):
        _render(4).require(8)


def test_the_ranks_shares_hold_every_problem_once():
    items = list(range(5))
    assert [share_of(items, rank=rank, ranks=3) for rank in range(3)] == [[0], [1, 2], [3, 4]]


def test_long_questions_can_be_cut_and_their_number_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(problem_stream, "rank_zero_info", said.append)
    source = ChainSource(size=6)
    lengths = {source.problem(index).id: index + 1 for index in range(6)}
    stream = ProblemStream.render(
        source,
        lambda problem: (7,) * lengths[problem.id],
        max_prompt_length=4,
        long_prompts="cut",
        option="data.problems",
        cut_ids=lambda problem, most: (8,) * (most - 1),
    )
    assert stream.prompts == ((7,), (7, 7), (7,) * 3, (7,) * 4, (8,) * 3, (8,) * 3)
    assert stream.problems == tuple(source.problem(index) for index in range(6))
    assert said == [
        "data.problems: 2 of 6 questions cut, their prompts are longer than "
        "data.max_prompt_length = 4 tokens"
    ]


def test_what_a_source_has_to_say_is_said(monkeypatch):
    said = []
    monkeypatch.setattr(problem_stream, "rank_zero_info", said.append)
    monkeypatch.setattr(ChainSource, "note", lambda self: "7 rows dropped")
    assert len(_render(6)) == 6
    assert said == ["data.problems: 7 rows dropped"]

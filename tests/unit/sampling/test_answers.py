import logging
from types import SimpleNamespace

import pytest

from gtpo_lit.sampling.answers import answer_all, read_answers
from gtpo_lit.sampling.vllm_requests import EngineError, EngineRequest
from gtpo_lit.types import SampleRequest

POLICY = SimpleNamespace(
    end_token_ids=(2,),
    tokenizer=SimpleNamespace(decode=lambda ids, **_: "-".join(map(str, ids))),
)


class Engine:
    """Answers a request with its place; fails on those that hold token 666."""

    def __init__(self):
        self.calls, self.aborted = [], 0

    def generate(self, planned):
        self.calls.append([item.place for item in planned])
        if any(666 in item.prompt_ids for item in planned):
            raise RuntimeError("a bad prompt")
        return [answer(item.place) for item in planned]

    def abort(self):
        self.aborted += 1


def answer(place, reason="length"):
    only = SimpleNamespace(index=0, token_ids=[place + 10], logprobs=None, finish_reason=reason)
    return SimpleNamespace(outputs=[only])


def planned(*prompts):
    return [
        EngineRequest(place=place, prompt_ids=prompt, params={"n": 1}, copies=1)
        for place, prompt in enumerate(prompts)
    ]


def requests(*prompts):
    return [SampleRequest(prompt_ids=prompt, seeds=(0,)) for prompt in prompts]


def read(prompts, answers, too_long=()):
    submitted = [item for item in planned(*prompts) if item.place not in too_long]
    return read_answers(
        requests(*prompts), submitted, answers, POLICY, too_long=too_long, max_model_len=16
    )


def test_a_bad_request_costs_itself_alone():
    engine = Engine()
    answers = answer_all(planned((1,), (2,), (666,), (4,), (5,)), engine.generate, engine.abort)
    assert [getattr(a, "outputs", [a])[0] for a in answers[:2]] == [
        answer(0).outputs[0], answer(1).outputs[0]
    ]  # fmt: skip
    assert isinstance(answers[2], RuntimeError)
    assert answers[3:] == [answer(3), answer(4)]
    assert engine.calls == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]]
    # Every failed call is cleared away before the next one.
    assert engine.aborted == 3


def test_no_request_is_no_call():
    engine = Engine()
    assert answer_all([], engine.generate, engine.abort) == []
    assert engine.calls == []


def test_ctrl_c_is_no_failure_of_a_request():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_all(planned((1,), (2,)), interrupted, Engine().abort)


def test_completions_stay_with_their_prompts(caplog):
    prompts = [(1,), (3, 4), (7,), (8, 9)]
    answers = [answer(0), RuntimeError("no room"), answer(2, reason="abort")]
    with caplog.at_level(logging.WARNING):
        found = read(prompts, answers, too_long=(3,))
    assert [[row.token_ids for row in rows] for rows in found] == [[(10,)], [], [], []]
    first, second, third = (record.getMessage() for record in caplog.records)
    assert "request 1" in first
    assert "RuntimeError: no room" in first
    assert "'3-4'" in first
    assert "finish reason 'abort'" in second
    assert "'7'" in second
    assert third.startswith("1 of 4 prompts fill the engine's 16 positions")
    assert "'8-9'" in third


def test_an_engine_that_answers_nothing_stops_the_run():
    broken = RuntimeError("out of memory")
    with pytest.raises(EngineError, match="none of 2 requests") as raised:
        read([(1,), (2,)], [broken, broken])
    assert raised.value.__cause__ is broken
    assert read([], []) == []

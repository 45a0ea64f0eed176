from types import SimpleNamespace

import pytest

from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.sampling.vllm_requests import (
    EngineError,
    EngineRequest,
    check_vllm_settings,
    engine_seed,
    plan_requests,
    read_completion,
    read_output,
)
from gtpo_lit.types import SampleRequest, SamplingSettings

ENDS = (151645, 151643)


def plan(requests, settings=SamplingSettings(max_tokens=8), *, limit=None, seeds=True):  # noqa: B008
    return plan_requests(
        requests, settings, end_token_ids=ENDS, max_model_len=limit, per_request_seeds=seeds
    )


def request(length, samples=2, first=7):
    return SampleRequest(
        prompt_ids=tuple(range(length)), seeds=tuple(first + 100 * i for i in range(samples))
    )


def read(ids, logprobs, reason, ends=ENDS):
    return read_completion(
        ids, logprobs, reason, end_token_ids=ends, decode=lambda ids: " ".join(map(str, ids))
    )


def test_a_prompt_goes_out_as_it_is_with_all_its_samples_as_one_request():
    # Two BOS tokens in front (a template and the tokeniser each added one) would show here: the
    # engine gets ids, so it adds none.
    prompt = (128000, 128006, 882)
    planned, too_long = plan([SampleRequest(prompt_ids=prompt, seeds=(5, 9, 11))])
    assert too_long == []
    assert planned == [
        EngineRequest(
            place=0,
            prompt_ids=prompt,
            params={
                "n": 3,
                "temperature": 1.0,
                "top_p": 1.0,
                "top_k": 0,
                "min_p": 0.0,
                "max_tokens": 8,
                "stop_token_ids": [151645, 151643],
                "detokenize": False,
                "logprobs": 0,
                "seed": 5,
            },
            copies=1,
        )
    ]


def test_a_prompt_as_long_as_the_limit_is_left_out_and_max_tokens_shrinks_to_the_room():
    requests = [request(12), request(16), request(15), request(17), request(3)]
    planned, too_long = plan(requests, limit=16)
    assert too_long == [1, 3]
    assert [(item.place, item.params["max_tokens"]) for item in planned] == [(0, 4), (2, 1), (4, 8)]


def test_without_per_request_seeds_none_is_sent():
    planned, _ = plan([request(3)], seeds=False)
    assert "seed" not in planned[0].params


def test_greedy_is_asked_for_once_and_copied():
    planned, _ = plan([request(3, samples=4)], SamplingSettings(temperature=0, max_tokens=8))
    assert (planned[0].params["n"], planned[0].copies) == (1, 4)
    assert "seed" not in planned[0].params
    assert planned[0].params["logprobs"] == 0


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
def test_log_probs_of_a_cut_distribution_are_not_asked_for(cut):
    planned, _ = plan([request(3)], SamplingSettings(max_tokens=8, **cut))
    assert "logprobs" not in planned[0].params


def test_streams_of_samples_problems_steps_and_seeds_do_not_meet():
    used = set()
    for seed in (0, 1):
        for step in range(20):
            for place in range(16):
                streams = tuple(stream_seed(seed, "train", step, place, k) for k in range(8))
                used |= {engine_seed(streams) + sample for sample in range(8)}
    assert len(used) == 2 * 20 * 16 * 8
    assert max(used) < 2**63


def test_settings_that_vllm_refuses_are_named():
    check_vllm_settings(SamplingSettings(temperature=2.0))
    with pytest.raises(ValueError, match=r"temperature must be at most 2 with vLLM, got 2\.5"):
        check_vllm_settings(SamplingSettings(temperature=2.5))
    with pytest.raises(ValueError, match=r"top_p must be in \(0, 1\], got 0"):
        plan([request(3)], SamplingSettings(top_p=0.0))
    for empty in (
        SampleRequest(prompt_ids=(), seeds=(1,)),
        SampleRequest(prompt_ids=(1,), seeds=()),
    ):
        with pytest.raises(ValueError, match="request 0 needs a prompt and a seed"):
            plan([empty])


def test_either_end_token_ends_a_response_and_stays_in_it():
    # Reports D3: an end token of the generation config that the tokeniser does not know as such.
    first = read([11, 12, 151643], [-1.0, -2.0, -3.0], "stop")
    assert first.token_ids == (11, 12, 151643)
    assert (first.finish_reason, first.text) == ("stop", "11 12")
    second = read([5, 6, 7], None, "length")
    assert (second.token_ids, second.finish_reason) == ((5, 6, 7), "length")
    third = read([11, 12, 13, 14, 15], None, "length")
    assert (third.token_ids, third.finish_reason) == ((11, 12, 13, 14, 15), "length")


def test_a_cut_response_is_left_as_it_is():
    # Report D4: no end token is written over the last one, none is added.
    cut = read([9, 8, 7], [-0.1, -0.2, -0.3], "length", ends=(2,))
    assert cut.token_ids == (9, 8, 7)
    assert cut.logprobs == (-0.1, -0.2, -0.3)
    assert (cut.finish_reason, cut.text) == ("length", "9 8 7")


def test_an_end_token_as_the_last_one_allowed_is_a_stop():
    assert read([9, 2], None, "length", ends=(2,)).finish_reason == "stop"


@pytest.mark.parametrize(
    ("ids", "logprobs", "reason", "message"),
    [
        ([], [], "stop", "an empty completion"),
        ([9], None, "abort", "finish reason 'abort'"),
        ([9], None, None, "finish reason None"),
        ([9], None, "stop", r"stopped on token 9, which is none of the end tokens \[2\]"),
        ([9, 8], [-1.0], "length", "1 log-probs for 2 tokens"),
        ([9], [float("-inf")], "length", "not finite"),
    ],
)
def test_what_must_not_be_trained_on_is_refused(ids, logprobs, reason, message):
    with pytest.raises(EngineError, match=message):
        read(ids, logprobs, reason, ends=(2,))


def output(*answers):
    return SimpleNamespace(
        outputs=[
            SimpleNamespace(
                index=index,
                token_ids=ids,
                logprobs=[{99: SimpleNamespace(logprob=-9.0), i: SimpleNamespace(logprob=-i / 10)}
                          for i in ids],
                finish_reason="length",
            )
            for index, ids in answers
        ]
    )  # fmt: skip


def test_samples_are_read_in_order_with_the_log_prob_of_each_sampled_token():
    planned, _ = plan([request(3)])
    first, second = read_output(
        planned[0], output((1, [5, 6]), (0, [4])), end_token_ids=ENDS, decode=str
    )
    assert (first.token_ids, first.logprobs) == ((4,), (-0.4,))
    assert (second.token_ids, second.logprobs) == ((5, 6), (-0.5, -0.6))


def test_missing_samples_are_noticed_and_greedy_ones_copied():
    planned, _ = plan([request(3)])
    with pytest.raises(EngineError, match=r"asked for 2 completions, .* numbered \[1\]"):
        read_output(planned[0], output((1, [5])), end_token_ids=ENDS, decode=str)
    planned, _ = plan([request(3, samples=3)], SamplingSettings(temperature=0, max_tokens=8))
    rows = read_output(planned[0], output((0, [5, 6])), end_token_ids=ENDS, decode=str)
    assert [row.token_ids for row in rows] == [(5, 6)] * 3

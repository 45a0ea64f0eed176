"""A real vLLM engine on a CPU: weights arrive, log-probs are the policy's, streams repeat."""

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.sampling.vllm import VLLMSampler
from gtpo_lit.types import SampleRequest, SamplingSettings

sys.path.insert(0, str(Path(__file__).parent))
from vllm_following import ADAPTERS, GREEDY, PROMPTS, draw_a_crowd, follow, gap, load, requests

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def policy():
    return PolicySpec().load()


@pytest.fixture(scope="module")
def sampler(policy):
    engine = VLLMSampler(kv_cache_mib=64)
    engine.push_weights(policy, 0)
    yield engine
    engine.close()


@pytest.mark.parametrize("model", ["tiny_qwen2", "tiny_untied", "tiny_llama", "tiny_untied_llama"])
def test_after_every_update_the_engine_is_the_policy(model, request):
    sampler = VLLMSampler(kv_cache_mib=64)
    try:
        follow(sampler, load(request.getfixturevalue(model)), 20)
    finally:
        sampler.close()


@pytest.mark.parametrize("model", ["tiny_qwen2", "tiny_untied_llama"])
def test_after_every_update_the_engine_has_the_merged_adapters(model, request):
    sampler, policy = VLLMSampler(kv_cache_mib=64), load(request.getfixturevalue(model), ADAPTERS)
    base = policy.fingerprint(base=True)
    try:
        follow(sampler, policy, 20)
    finally:
        sampler.close()
    assert policy.fingerprint(base=True) == base


def test_the_engine_does_not_look_at_the_trainers_memory(sampler, policy):
    asked = requests()
    before = sampler.generate(asked, GREEDY)
    with torch.no_grad():
        kept = [parameter.clone() for parameter in policy.parameters()]
        for parameter in policy.parameters():
            parameter.zero_()
    try:
        sampler.reset_prefix_cache()
        assert sampler.generate(asked, GREEDY) == before
    finally:
        with torch.no_grad():
            for parameter, value in zip(policy.parameters(), kept, strict=True):
                parameter.copy_(value)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_log_probs_are_those_at_the_sampling_temperature(sampler, policy, temperature):
    # Report B2: raw log-probs would be off by tenths here.
    asked = requests(samples=4, prompts=PROMPTS)
    settings = SamplingSettings(temperature=temperature, max_tokens=16)
    assert gap(policy, asked, sampler.generate(asked, settings), temperature) < 1e-5


def test_a_step_of_more_prompt_tokens_than_a_batch_takes(sampler, monkeypatch):
    aborted, abort = [], sampler._engine.abort
    monkeypatch.setattr(sampler._engine, "abort", lambda: aborted.append(abort()))
    draw_a_crowd(sampler)
    assert aborted == []  # after an error of the engine what is left would be asked for again


def test_a_cut_distribution_comes_without_log_probs(sampler):
    rows = sampler.generate(requests(prompts=PROMPTS[:1]), SamplingSettings(top_p=0.5))
    assert rows[0][0].logprobs is None


def test_greedy_is_what_the_trainers_own_sampler_draws(sampler, policy):
    judge = TransformersSampler()
    judge.push_weights(policy, 0)
    asked = requests(samples=2, prompts=PROMPTS)
    for ours, theirs in zip(
        sampler.generate(asked, GREEDY), judge.generate(asked, GREEDY), strict=True
    ):
        assert [row.token_ids for row in ours] == [row.token_ids for row in theirs]
        assert [row.text for row in ours] == [row.text for row in theirs]
        assert [row.finish_reason for row in ours] == [row.finish_reason for row in theirs]
        assert ours[0].logprobs == pytest.approx(theirs[0].logprobs, abs=1e-5)


@pytest.mark.parametrize("per_request_seeds", [True, False])
def test_a_step_repeats_and_differs_from_others(sampler, monkeypatch, per_request_seeds):
    monkeypatch.setattr(sampler, "per_request_seeds", per_request_seeds)
    settings = SamplingSettings(temperature=2.0, max_tokens=24)
    draw = lambda step: [  # noqa: E731
        row.token_ids
        for rows in sampler.generate(requests(8, step, [PROMPTS[0]] * 4), settings)
        for row in rows
    ]
    first = draw(0)
    assert draw(0) == first
    # Four problems of one text, eight samples, two steps: all of them differ.
    assert len({*first, *draw(1)}) == 64


def test_a_sample_does_not_depend_on_the_requests_beside_it(sampler):
    settings = SamplingSettings(temperature=1.5, max_tokens=16)
    asked = requests(4)
    together = sampler.generate(asked, settings)
    alone = [sampler.generate([one], settings)[0] for one in reversed(asked)]
    tokens = [[row.token_ids for row in rows] for rows in together]
    assert tokens == [[row.token_ids for row in rows] for rows in reversed(alone)]


def test_samples_follow_the_policys_distribution(sampler, policy):
    ids = torch.tensor([PROMPTS[0]])
    logits, _ = policy.next_token_logits(ids, torch.ones_like(ids).bool())
    wanted = torch.softmax(logits[0] / 0.8, dim=-1)
    drawn = sampler.generate(
        [SampleRequest(prompt_ids=PROMPTS[0], seeds=tuple(range(4000)))],
        SamplingSettings(temperature=0.8, max_tokens=1),
    )[0]
    counts = torch.bincount(
        torch.tensor([row.token_ids[0] for row in drawn]), minlength=len(wanted)
    )
    # Each share of 4000 draws is within five of its standard deviations.
    deviation = (wanted * (1 - wanted) / 4000).sqrt()
    assert ((counts / 4000 - wanted).abs() <= 5 * deviation + 1e-4).all()


def test_limits_of_length(sampler, policy, caplog):
    longest = policy.max_positions
    prompts = [
        tuple(3 + i % 10 for i in range(length))
        for length in (longest, longest - 1, longest - 3, 5)
    ]
    found = sampler.generate(
        requests(2, prompts=prompts), SamplingSettings(temperature=2.0, max_tokens=20)
    )
    assert found[0] == []
    assert [len(row.token_ids) for row in found[1]] == [1, 1]
    assert all(1 <= len(row.token_ids) <= 3 for row in found[2])
    assert len(found[3]) == 2
    assert f"1 of 4 prompts fill the engine's {longest} positions" in caplog.text


def test_an_error_of_the_engine_loses_one_group_and_names_its_prompt(sampler, caplog):
    asked = requests(2)
    good = sampler.generate(asked, SamplingSettings())
    bad = SampleRequest(prompt_ids=(4, 99999), seeds=(1, 2))
    found = sampler.generate([asked[0], bad, *asked[1:]], SamplingSettings())
    assert found == [good[0], [], *good[1:]]
    assert "the engine failed on request 1" in caplog.text
    assert sampler.generate(asked, SamplingSettings()) == good


def test_either_end_token_ends_a_response(tiny_two_ends):
    policy = PolicySpec(path=str(tiny_two_ends)).load()
    sampler = VLLMSampler(kv_cache_mib=64, max_model_len=64)
    try:
        sampler.push_weights(policy, 0)
        settings = SamplingSettings(temperature=2.0, max_tokens=40)
        rows = [row for rows in sampler.generate(requests(32, prompts=PROMPTS), settings)
                for row in rows]  # fmt: skip
    finally:
        sampler.close()
    last = {row.token_ids[-1] for row in rows if row.finish_reason == "stop"}
    assert last == {1, 5}
    for row in rows:
        assert not {1, 5} & set(row.token_ids[:-1])
        assert (row.finish_reason == "stop") == (row.token_ids[-1] in (1, 5))
        assert len(row.logprobs) == len(row.token_ids)
        if row.finish_reason == "length":
            assert len(row.token_ids) == 40


def test_the_process_stays_as_it_was(policy):
    set_num_threads, environment = torch.set_num_threads, dict(os.environ)
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    grouped = dist.is_initialized()
    sampler = VLLMSampler(kv_cache_mib=64)
    sampler.push_weights(policy, 0)
    sampler.generate(requests(prompts=PROMPTS), SamplingSettings())
    sampler.close()
    assert dist.is_initialized() == grouped
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]
    assert torch.set_num_threads is set_num_threads
    assert dict(os.environ) == environment


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"head_dim": 16}, {}, r"attention heads of size .* the policy's have size 16"),
        ({"architectures": ["Unheard"]}, {}, r"knows no model of .* \['Unheard'\]"),
        ({}, {"max_model_len": 300}, r"max_model_len = 300 is longer than the policy's 256"),
        ({}, {"sleep": True}, r"sleep = true needs a GPU"),
    ],
)
def test_what_vllm_cannot_do_is_told_before_weights_load(tiny_qwen2, changes, options, message):
    config = PolicySpec(path=str(tiny_qwen2)).load_config()
    for name, value in changes.items():
        setattr(config, name, value)
    from gtpo_lit.sampling.vllm_checks import EngineOptions, check_model

    check_model(PolicySpec(path=str(tiny_qwen2)).load_config(), EngineOptions())
    with pytest.raises(ValueError, match=message):
        check_model(config, EngineOptions(**options))

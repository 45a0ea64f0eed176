"""The sampler's own logic, with an engine that records what it is asked."""

import importlib.util
from types import SimpleNamespace

import pytest
import torch

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling import vllm
from gtpo_lit.sampling.vllm import VLLMSampler
from gtpo_lit.sampling.vllm_checks import EngineOptions, head_size, max_positions
from gtpo_lit.types import SampleRequest, SamplingSettings


class StubEngine:
    """Answers every request with its prompt's first token, ended."""

    max_model_len = 16
    resets = True

    def __init__(self, policy, options):
        self.calls, self.options, self.seeds = ["build"], options, []
        self.weights, self.asked = {}, []

    def load(self, weights):
        self.calls.append("load")
        self.weights = {name: value.clone() for name, value in weights}

    def reset_prefix_cache(self):
        self.calls.append("reset")
        return self.resets

    def generate(self, requests, seed):
        self.calls.append("generate")
        self.seeds.append(seed)
        self.asked += requests
        if any(63 in request.prompt_ids for request in requests):
            raise RuntimeError("a bad prompt")
        return [self.answer(request) for request in requests]

    def answer(self, request):
        ids = [request.prompt_ids[0], 1]
        steps = [{token: SimpleNamespace(logprob=-0.5)} for token in ids]
        return SimpleNamespace(
            outputs=[
                SimpleNamespace(index=i, token_ids=ids, logprobs=steps, finish_reason="stop")
                for i in range(request.params["n"])
            ]
        )

    def abort(self):
        self.calls.append("abort")

    def sleep(self):
        self.calls.append("sleep")

    def wake_up(self):
        self.calls.append("wake_up")

    def close(self):
        self.calls.append("close")


@pytest.fixture
def policy(tiny_qwen2):
    return PolicySpec(path=str(tiny_qwen2)).load()


@pytest.fixture
def engines(monkeypatch):
    built = []

    def build(policy, options):
        built.append(StubEngine(policy, options))
        return built[-1]

    monkeypatch.setattr(vllm, "InProcessEngine", build)
    monkeypatch.setattr(vllm, "require_vllm", lambda: None)
    return built


def request(*ids, samples=2):
    return SampleRequest(prompt_ids=ids, seeds=tuple(range(1, samples + 1)))


SETTINGS = SamplingSettings(max_tokens=8)


def test_the_cache_is_reset_after_each_update_and_before_the_next_request(engines, policy):
    sampler = VLLMSampler()
    assert engines == []  # nothing is built before the first push
    for version in (0, 1, 1, 2):
        sampler.push_weights(policy, version)
        sampler.generate([request(5)], SETTINGS)
    assert engines[0].calls == [
        "build", "load", "reset", "generate", "load", "reset", "generate", "generate",
        "load", "reset", "generate",
    ]  # fmt: skip


def test_the_engine_gets_the_weights_of_the_moment(engines, policy):
    sampler = VLLMSampler()
    sampler.push_weights(policy, 0)
    with torch.no_grad():
        policy.model.model.norm.weight.add_(1.0)
    sampler.push_weights(policy, 1)
    seen = engines[0].weights["model.norm.weight"]
    assert torch.equal(seen, policy.model.model.norm.weight)


def test_another_policy_is_pushed_whatever_its_version(engines, policy, tiny_qwen2):
    sampler = VLLMSampler()
    sampler.push_weights(policy, 0)
    sampler.push_weights(PolicySpec(path=str(tiny_qwen2)).load(), 0)
    assert engines[0].calls == ["build", "load", "reset", "load", "reset"]


def test_after_a_failed_push_nothing_is_drawn(engines, policy, monkeypatch):
    sampler = VLLMSampler()
    sampler.push_weights(policy, 0)
    monkeypatch.setattr(StubEngine, "resets", False)
    with pytest.raises(RuntimeError, match="could not reset its prefix cache"):
        sampler.push_weights(policy, 1)
    assert sampler.version is None
    with pytest.raises(AssertionError, match="push_weights comes before generate"):
        sampler.generate([request(5)], SETTINGS)


def test_after_sleep_the_weights_come_again_and_the_cache_is_reset(engines, policy):
    sampler = VLLMSampler(sleep=True)
    sampler.push_weights(policy, 0)
    sampler.generate([request(5)], SETTINGS)
    sampler.rest()
    sampler.rest()
    sampler.push_weights(policy, 0)
    assert engines[0].calls[3:] == ["generate", "sleep", "wake_up", "load", "reset"]
    awake = VLLMSampler()
    awake.push_weights(policy, 0)
    awake.rest()
    assert engines[1].calls == ["build", "load", "reset"]


def test_after_close_the_next_push_builds_another_engine(engines, policy):
    sampler = VLLMSampler()
    sampler.close()
    sampler.push_weights(policy, 3)
    sampler.close()
    assert engines[0].calls[-1] == "close"
    sampler.push_weights(policy, 3)
    assert engines[1].calls == ["build", "load", "reset"]


def test_results_stay_with_their_prompts_when_some_are_lost(engines, policy, caplog):
    sampler = VLLMSampler()
    sampler.push_weights(policy, 0)
    found = sampler.generate(
        [request(5), request(*range(16)), request(63, 4), request(7, 8)], SETTINGS
    )
    assert [[row.token_ids for row in rows] for rows in found] == [
        [(5, 1)] * 2, [], [], [(7, 1)] * 2
    ]  # fmt: skip
    assert found[0][0].logprobs == (-0.5, -0.5)
    messages = [record.getMessage() for record in caplog.records]
    assert any("request 2" in message and "a bad prompt" in message for message in messages)
    assert any(message.startswith("1 of 4 prompts fill") for message in messages)


def test_the_ids_that_are_sampled_from_are_those_that_are_trained_on(engines, policy):
    # Report A3: nothing decodes and tokenises again, so no second BOS can come.
    sampler = VLLMSampler()
    sampler.push_weights(policy, 0)
    sampler.generate([request(2, 2, 9), request(9)], SETTINGS)
    assert [item.prompt_ids for item in engines[0].asked] == [(2, 2, 9), (9,)]
    assert engines[0].asked[0].params["stop_token_ids"] == list(policy.end_token_ids)


def test_without_seeds_of_their_own_requests_share_a_stream_named_by_all_of_them(engines, policy):
    sampler = VLLMSampler(per_request_seeds=False)
    sampler.push_weights(policy, 0)
    for seeds in ((1, 2), (1, 2), (1, 3)):
        sampler.generate([SampleRequest(prompt_ids=(5,), seeds=seeds)], SETTINGS)
    first, again, other = engines[0].seeds
    assert first == again != other
    assert "seed" not in engines[0].asked[0].params


def test_without_vllm_there_is_one_line_that_says_how_to_get_it(monkeypatch, tiny_qwen2):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"vLLM is not installed; .*gtpo-lit\[vllm\]") as raised:
        VLLMSampler().check(PolicySpec(path=str(tiny_qwen2)), [SETTINGS])
    assert "\n" not in str(raised.value)


def test_the_longest_prompt_leaves_room_for_one_token(tiny_qwen2):
    spec = PolicySpec(path=str(tiny_qwen2))
    assert VLLMSampler().longest_prompt(spec) == 255
    assert VLLMSampler(max_model_len=64).longest_prompt(spec) == 63


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_share": 0.0}, r"data\.sampler\.memory_share must be in \(0, 1\], got 0"),
        ({"max_model_len": 1}, r"data\.sampler\.max_model_len must be at least 2, got 1"),
        ({"max_num_seqs": 0}, r"data\.sampler\.max_num_seqs must be at least 1, got 0"),
        ({"kv_cache_mib": 0}, r"data\.sampler\.kv_cache_mib must be at least 1, got 0"),
        ({"tensor_parallel": 0}, r"data\.sampler\.tensor_parallel must be at least 1, got 0"),
        ({"dtype": "int8"}, r"data\.sampler\.dtype must be in .* got 'int8'"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        VLLMSampler(**options)


def test_sizes_are_read_from_the_config(tiny_qwen2):
    config = PolicySpec(path=str(tiny_qwen2)).load_config()
    assert (head_size(config), max_positions(config)) == (32, 256)
    config.head_dim = 80
    assert head_size(config) == 80
    assert EngineOptions(max_model_len=2).max_model_len == 2

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    AutoTokenizer,
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
)

from gtpo_lit.policy import CausalPolicy, PolicySpec
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings


def sampler_of(policy: CausalPolicy, requests_per_batch: int = 8) -> TransformersSampler:
    sampler = TransformersSampler(requests_per_batch=requests_per_batch)
    sampler.push_weights(policy, 0)
    sampler.ask_for_entropies()
    return sampler


def request(prompt: str, samples: int, policy: CausalPolicy, place: int = 0) -> SampleRequest:
    seeds = tuple(stream_seed(0, "test", 0, place, sample) for sample in range(samples))
    return SampleRequest(prompt_ids=tuple(policy.tokenizer(prompt).input_ids), seeds=seeds)


def rescored(
    policy: CausalPolicy, prompt: tuple[int, ...], completion: Completion, temperature: float
) -> tuple[Tensor, Tensor]:
    ids = torch.tensor([[*prompt, *completion.token_ids]])
    with torch.no_grad():
        logp, entropy = policy(
            ids, torch.ones_like(ids).bool(), len(completion.token_ids), temperature=temperature
        )
    return logp[0], entropy[0]


@pytest.fixture
def policy(tiny_qwen2) -> CausalPolicy:
    return PolicySpec(path=str(tiny_qwen2)).load()


def other_models() -> dict[str, PreTrainedModel]:
    sizes = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0}
    decoder = sizes | {"intermediate_size": 32, "num_attention_heads": 2, "head_dim": 16}
    decoder |= {"num_key_value_heads": 1, "sliding_window": 4}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {
            "sliding window": MistralForCausalLM(MistralConfig(**decoder)),
            "soft cap": Gemma2ForCausalLM(Gemma2Config(**decoder)),
            "no positions": BloomForCausalLM(
                BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=2, eos_token_id=1)
            ),
            "no key-value cache": MambaForCausalLM(MambaConfig(**sizes, state_size=4)),
        }


@pytest.mark.parametrize("name", ["tiny", *other_models()])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_policy_scores_what_the_sampler_reported(name, temperature, policy):
    if name != "tiny":
        policy = CausalPolicy(other_models()[name].eval(), policy.tokenizer)
    requests = [request(p, 3, policy, i) for i, p in enumerate(["12+3=", "7=", "5*5*5-1="])]
    settings = SamplingSettings(max_tokens=12, temperature=temperature)
    for asked, drawn in zip(requests, sampler_of(policy).generate(requests, settings), strict=True):
        assert len(drawn) == 3
        for completion in drawn:
            logp, entropy = rescored(policy, asked.prompt_ids, completion, temperature)
            got = torch.tensor(completion.logprobs)
            torch.testing.assert_close(got, logp, rtol=1e-5, atol=1e-5)
            got = torch.tensor(completion.entropies)
            torch.testing.assert_close(got, entropy, rtol=1e-5, atol=1e-5)


def test_entropies_come_only_if_asked_for_and_change_nothing_else(policy):
    requests = [request(p, 3, policy, i) for i, p in enumerate(["12+3=", "7="])]
    settings = SamplingSettings(max_tokens=12, temperature=0.8)
    silent = TransformersSampler()
    silent.push_weights(policy, 0)
    asked = sampler_of(policy).generate(requests, settings)
    for group, told in zip(silent.generate(requests, settings), asked, strict=True):
        assert group == [dataclasses.replace(one, entropies=None) for one in told]
        assert all(len(one.entropies) == len(one.token_ids) for one in told)


def test_an_engine_that_cannot_tell_entropies_says_so():
    class Blind(TransformersSampler):
        ask_for_entropies = Sampler.ask_for_entropies

    with pytest.raises(ValueError, match=r"data.entropy_source = 'sampler': Blind does not"):
        Blind().ask_for_entropies()


def test_rows_do_not_depend_on_their_neighbours(policy):
    settings = SamplingSettings(max_tokens=20)
    asked = [request(f"{i}+{i * i}=", 1 + i % 4, policy, i) for i in range(10)]
    together = sampler_of(policy, 10).generate(asked, settings)
    assert [len(group) for group in together] == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    for sampler in (sampler_of(policy, 3), sampler_of(policy, 1)):
        apart = sampler.generate(asked, settings)
        assert [[c.token_ids for c in g] for g in apart] == [
            [c.token_ids for c in g] for g in together
        ]
    alone = SampleRequest(prompt_ids=asked[3].prompt_ids, seeds=asked[3].seeds[2:3])
    ((one,),) = sampler_of(policy).generate([alone], settings)
    assert one.token_ids == together[3][2].token_ids
    assert len({c.token_ids for c in together[3]}) == 4


def test_two_ranks_sample_bit_for_bit_what_one_does(policy):
    settings = SamplingSettings(max_tokens=12)
    asked = [request(f"{i}*{i}=", 2, policy, i) for i in range(8)]
    whole = sampler_of(policy, 2).generate(asked, settings)
    halves = [sampler_of(policy, 2).generate(asked[i : i + 4], settings) for i in (0, 4)]
    assert halves[0] + halves[1] == whole


def test_draws_follow_the_tempered_softmax(policy):
    policy.end_token_ids = ()
    draws, temperature = 4000, 0.7
    asked = request("3+4=", draws, policy)
    settings = SamplingSettings(max_tokens=2, temperature=temperature)
    (drawn,) = sampler_of(policy).generate([asked], settings)
    with torch.no_grad():
        first = policy.model(torch.tensor([asked.prompt_ids])).logits[0, -1].double()
        prompts = torch.tensor([[*asked.prompt_ids, token] for token in range(64)])
        second = policy.model(prompts).logits[:, -1].double()
    first, second = (first / temperature).softmax(-1), (second / temperature).softmax(-1)
    expected = torch.stack([first, first @ second]) * draws
    for place in range(2):
        tokens = torch.tensor([completion.token_ids[place] for completion in drawn])
        counts = torch.bincount(tokens, minlength=64).double()
        common = expected[place] >= 5
        seen = torch.cat((counts[common], counts[~common].sum()[None]))
        wanted = torch.cat((expected[place][common], expected[place][~common].sum()[None]))
        statistic = ((seen - wanted) ** 2 / wanted).sum().item()
        degrees = len(seen) - 1
        assert degrees >= 10
        # The 0.1 % point of chi-square, by Wilson and Hilferty.
        limit = degrees * (1 - 2 / (9 * degrees) + 3.09 * (2 / (9 * degrees)) ** 0.5) ** 3
        assert statistic < limit


def test_every_end_token_ends_a_response(tiny_two_ends):
    policy = PolicySpec(path=str(tiny_two_ends)).load()
    (drawn,) = sampler_of(policy).generate(
        [request("3+4=", 64, policy)], SamplingSettings(max_tokens=30, temperature=3.0)
    )
    last = {completion.token_ids[-1] for completion in drawn if completion.finish_reason == "stop"}
    assert last == {1, 5}
    for completion in drawn:
        assert not {1, 5} & set(completion.token_ids[:-1])
        stopped = completion.token_ids[-1] in (1, 5)
        assert completion.finish_reason == ("stop" if stopped else "length")
        assert len(completion.token_ids) == 30 or stopped
        assert len(completion.logprobs) == len(completion.entropies) == len(completion.token_ids)
        text = policy.tokenizer.convert_ids_to_tokens(completion.token_ids[: -1 if stopped else 30])
        special = policy.tokenizer.all_special_tokens
        assert completion.text == "".join(token for token in text if token and token not in special)


def scripted(policy: CausalPolicy, *tokens: int) -> CausalPolicy:
    """A policy that says `tokens` in turn, whatever the prompt of one token, and then pads."""
    script = torch.tensor([*tokens, *[policy.pad_token_id] * 50])

    class Script(nn.Module):
        def forward(self, ids: Tensor, attention: Tensor, cache: None) -> tuple[Tensor, None]:
            said = script[attention.sum(-1) - 1]
            return 50.0 * nn.functional.one_hot(said, 64).float(), None

    policy.next_token_logits = lambda ids, attention, cache=None: Script()(ids, attention, cache)
    return policy


@pytest.mark.parametrize(
    ("said", "max_tokens", "expected", "reason"),
    [
        ((11, 12, 5), 5, (11, 12, 5), "stop"),
        ((5, 6, 7), 3, (5,), "stop"),
        ((6, 7, 8), 3, (6, 7, 8), "length"),
        ((11, 12, 13, 14, 15), 5, (11, 12, 13, 14, 15), "length"),
        ((9, 8, 1), 3, (9, 8, 1), "stop"),
        ((9, 8, 7, 1), 3, (9, 8, 7), "length"),
        ((9, 0, 7, 1), 4, (9, 0, 7, 1), "stop"),
    ],
)
def test_responses_are_kept_as_drawn(said, max_tokens, expected, reason, tiny_two_ends):
    policy = scripted(PolicySpec(path=str(tiny_two_ends)).load(), *said)
    asked = SampleRequest(prompt_ids=(20,), seeds=(1, 2))
    (drawn,) = sampler_of(policy).generate([asked], SamplingSettings(max_tokens=max_tokens))
    assert [c.token_ids for c in drawn] == [expected, expected]
    assert [c.finish_reason for c in drawn] == [reason, reason]
    assert [len(c.logprobs) for c in drawn] == [len(expected)] * 2


def test_pad_that_is_an_end_token_hides_nothing(tiny_qwen2):
    policy = PolicySpec(path=str(tiny_qwen2)).load()
    asked = [request("1+2+3+4=", 4, policy, 0), request("5=", 4, policy, 1)]
    settings = SamplingSettings(max_tokens=16)
    before = sampler_of(policy).generate(asked, settings)
    policy.pad_token_id = 1
    assert sampler_of(policy).generate(asked, settings) == before


def test_logits_minus_infinity_draws_and_scores(tiny_two_ends):
    policy = PolicySpec(path=str(tiny_two_ends)).load()
    logits = torch.full((64,), -torch.inf)
    logits[[20, 21]] = 0.0
    policy.next_token_logits = lambda ids, _attention, _cache=None: (
        logits.expand(len(ids), -1),
        None,
    )
    asked = SampleRequest(prompt_ids=(20,), seeds=tuple(range(50)))
    (drawn,) = sampler_of(policy).generate([asked], SamplingSettings(max_tokens=1))
    assert {c.token_ids for c in drawn} == {(20,), (21,)}
    assert [c.logprobs[0] for c in drawn] == pytest.approx([-0.693147] * 50, abs=1e-6)
    assert [c.entropies[0] for c in drawn] == pytest.approx([0.693147] * 50, abs=1e-6)


def test_known_logits_give_the_tempered_log_prob(tiny_qwen2):
    policy = PolicySpec(path=str(tiny_qwen2)).load()
    logits = torch.full((64,), -torch.inf)
    logits[[20, 21, 22]] = torch.tensor([2.0, 1.0, 0.0])
    policy.next_token_logits = lambda ids, _attention: (logits.expand(len(ids), -1), None)
    asked = SampleRequest(prompt_ids=(20,), seeds=tuple(range(50)))
    for temperature, expected in ((0.6, -0.202573), (1.0, -0.407606)):
        settings = SamplingSettings(max_tokens=1, temperature=temperature)
        (drawn,) = sampler_of(policy).generate([asked], settings)
        got = [c.logprobs[0] for c in drawn if c.token_ids == (20,)]
        assert len(got) > 20
        assert got == pytest.approx([expected] * len(got), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        ({}, {20, 21, 22, 23}),
        ({"top_k": 2}, {20, 21}),
        ({"top_p": 0.75}, {20, 21}),
        ({"top_p": 0.85}, {20, 21, 22}),
        ({"min_p": 0.3}, {20, 21}),
        ({"top_k": 3, "top_p": 0.5}, {20, 21}),
        ({"temperature": 0.0}, {20}),
    ],
)
def test_cuts_limit_the_draw_but_not_the_scores(changes, kept, tiny_qwen2):
    policy = PolicySpec(path=str(tiny_qwen2)).load()
    probabilities = {20: 0.45, 21: 0.35, 22: 0.12, 23: 0.08}
    logits = torch.full((64,), -torch.inf)
    for token, probability in probabilities.items():
        logits[token] = np.log(probability)
    policy.next_token_logits = lambda ids, _attention: (logits.expand(len(ids), -1), None)
    asked = SampleRequest(prompt_ids=(20,), seeds=tuple(range(200)))
    settings = SamplingSettings(max_tokens=1, **changes)
    (drawn,) = sampler_of(policy).generate([asked], settings)
    assert {c.token_ids[0] for c in drawn} == kept
    entropy = -sum(p * np.log(p) for p in probabilities.values())
    for completion in drawn:
        expected = np.log(probabilities[completion.token_ids[0]])
        assert completion.logprobs[0] == pytest.approx(expected, abs=1e-6)
        assert completion.entropies[0] == pytest.approx(entropy, abs=1e-6)


def test_greedy_equals_generate(policy):
    prompt = tuple(policy.tokenizer("12+34=").input_ids)
    asked = SampleRequest(prompt_ids=prompt, seeds=(5,))
    settings = SamplingSettings(max_tokens=16, temperature=0)
    ((completion,),) = sampler_of(policy).generate([asked], settings)
    expected = policy.model.generate(torch.tensor([prompt]), max_new_tokens=16, do_sample=False)
    assert completion.token_ids == tuple(expected[0, len(prompt) :].tolist())


def test_global_state_is_left_as_it_was(policy):
    policy.train()
    policy.model.model.layers[0].eval()
    modes = [module.training for module in policy.modules()]
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    sampler_of(policy).generate([request("3+4=", 4, policy)], SamplingSettings(max_tokens=5))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()
    assert [module.training for module in policy.modules()] == modes
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_new_weights_are_drawn_from_at_once(policy):
    sampler = sampler_of(policy)
    asked = [request("3+4=", 8, policy)]
    settings = SamplingSettings(max_tokens=8)
    before = sampler.generate(asked, settings)
    with torch.no_grad():
        policy.model.model.norm.weight.mul_(0.1)
    sampler.push_weights(policy, 1)
    after = sampler.generate(asked, settings)
    assert sampler.version == 1
    logp, _ = rescored(policy, asked[0].prompt_ids, after[0][0], 1.0)
    assert after[0][0].logprobs == pytest.approx(logp.tolist(), abs=1e-5)
    assert after[0][0].logprobs != pytest.approx(before[0][0].logprobs, abs=1e-2)


def test_edges(policy):
    sampler = sampler_of(policy)
    assert sampler.generate([], SamplingSettings()) == []
    with pytest.raises(ValueError, match="at least one token"):
        sampler.generate([SampleRequest(prompt_ids=(), seeds=(1,))], SamplingSettings())
    long = SampleRequest(prompt_ids=(4,) * 200, seeds=(1,))
    with pytest.raises(
        ValueError, match="prompt of 200 tokens with max_tokens=57 .* 256 positions"
    ):
        sampler.generate([long], SamplingSettings(max_tokens=57))
    assert len(sampler.generate([long], SamplingSettings(max_tokens=56))[0]) == 1
    with pytest.raises(ValueError, match="top_p must be"):
        sampler.generate([long], SamplingSettings(top_p=2.0))
    with pytest.raises(ValueError, match="requests_per_batch must be at least 1, got 0"):
        TransformersSampler(requests_per_batch=0)


def test_one_beginning_token_and_the_same_ids_in_training(tiny_llama):
    # The sampler takes token ids, so that nothing can be added on the way.
    policy = PolicySpec(path=str(tiny_llama)).load()
    seen: list[Tensor] = []
    policy.model.model.embed_tokens.register_forward_pre_hook(
        lambda _module, inputs: seen.append(inputs[0])
    )
    prompt = (2, *AutoTokenizer.from_pretrained(tiny_llama)("3+4=").input_ids)
    ((completion,),) = sampler_of(policy).generate(
        [SampleRequest(prompt_ids=prompt, seeds=(1,))], SamplingSettings(max_tokens=4)
    )
    prompts = [ids for ids in seen if ids.shape[1] == len(prompt)]
    assert [ids.tolist() for ids in prompts] == [[list(prompt)]]
    assert torch.cat(seen[-3:], dim=1).tolist() == [list(completion.token_ids[:3])]

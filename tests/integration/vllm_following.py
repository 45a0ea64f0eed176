"""What must be true of any vLLM sampler after every update, in process or over HTTP."""

import torch

from gtpo_lit.policy import PolicySpec
from gtpo_lit.policy_lora import LoRA
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.sampling.vllm import VLLMSampler
from gtpo_lit.types import SampleRequest, SamplingSettings

GREEDY = SamplingSettings(temperature=0.0, max_tokens=12)
PROMPTS = ((4, 5, 6), (7, 8, 9, 10, 11))
# Longer than a block of the prefix cache, which is 128 tokens on a CPU.
LONG = tuple(range(4, 60)) * 3


def requests(samples=1, step=0, prompts=PROMPTS):
    return [
        SampleRequest(
            prompt_ids=prompt,
            seeds=tuple(stream_seed(0, "test", step, place, k) for k in range(samples)),
        )
        for place, prompt in enumerate(prompts)
    ]


LONGER = requests(prompts=(*PROMPTS, LONG))


def draw_a_crowd(sampler):
    """More prompt tokens than an engine on a CPU takes into one batch; drawn as in small lots."""
    prompts = [tuple(4 + (place * 7 + k * k) % 50 for k in range(100)) for place in range(60)]
    asked, settings = requests(samples=2, prompts=prompts), SamplingSettings(max_tokens=6)
    crowd = sampler.generate(asked, settings)
    lots = [sampler.generate(asked[start : start + 10], settings) for start in range(0, 60, 10)]
    assert [[one.token_ids for one in row] for row in crowd] == [
        [one.token_ids for one in row] for lot in lots for row in lot
    ]


def gap(policy, asked, found, temperature):
    """Largest distance of the engine's log-probs from the policy's, in nats."""
    gaps = []
    for request, rows in zip(asked, found, strict=True):
        for row in rows:
            ids = torch.tensor([[*request.prompt_ids, *row.token_ids]])
            with torch.no_grad():
                logp, _ = policy(
                    ids, torch.ones_like(ids).bool(), len(row.token_ids), temperature=temperature
                )
            gaps.append((logp[0] - torch.tensor(row.logprobs)).abs().max())
    return float(max(gaps))


def update(policy, optimizer, step):
    """One optimiser step on a loss that moves every parameter."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(4, 60, (8, 24), generator=generator)
    logp, entropy = policy(ids, torch.ones_like(ids).bool(), 20)
    sign = torch.randn(8, 1, generator=generator)
    optimizer.zero_grad()
    ((sign * logp).mean() - 0.1 * entropy.mean()).backward()
    optimizer.step()


ADAPTERS = LoRA(rank=4, seed=0)


def load(folder, lora=None):
    """A policy with logits of the size that real models have, so that rounding is theirs."""
    policy = PolicySpec(path=str(folder), lora=lora).load()
    with torch.no_grad():
        for parameter in policy.parameters():
            if parameter.ndim > 1:
                parameter.mul_(0.5)
    return policy


def follow(sampler, policy, updates):
    """After every update the engine's log-probs are the policy's own, to 1e-5 in float32.

    After the updates 1, half of all and the last, greedy text is that of a fresh engine with the
    same weights, and of the trainer's own sampler.
    """
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    judge = TransformersSampler()
    before = None
    for step in range(updates + 1):
        if step > 0:
            update(policy, optimizer, step)
        sampler.push_weights(policy, step)
        judge.push_weights(policy, step)
        asked = requests(samples=2, step=step, prompts=(*PROMPTS, LONG))
        # The same long prompt is asked for each time: its cached keys must be forgotten.
        found = sampler.generate(asked, SamplingSettings(temperature=0.7, max_tokens=12))
        assert [len(rows) for rows in found] == [2, 2, 2]
        assert gap(policy, asked, found, 0.7) < 1e-5, step
        if step in (1, updates // 2, updates):
            tokens = [rows[0].token_ids for rows in sampler.generate(LONGER, GREEDY)]
            fresh = VLLMSampler(kv_cache_mib=64)
            fresh.push_weights(policy, step)
            assert tokens == [rows[0].token_ids for rows in fresh.generate(LONGER, GREEDY)]
            fresh.close()
            assert tokens == [rows[0].token_ids for rows in judge.generate(LONGER, GREEDY)]
            assert tokens != before
            before = tokens

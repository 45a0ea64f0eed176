"""Rollouts and pushes of vLLM beside plain PyTorch, in turns on the same machine.

    python benchmarks/vllm_rollouts.py models/smollm2 --threads 2

Prints, for each round and as medians: tokens a second of vLLM and of a padded `model.generate`,
with one length for all responses and with lengths from 4 to 128; and the time of a weight push
beside that of a plain copy of the same tensors.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.vllm_checks import EngineOptions
from gtpo_lit.sampling.vllm_engine import InProcessEngine
from gtpo_lit.sampling.vllm_requests import EngineRequest
from gtpo_lit.sampling.weights import whole_weights

PROMPT_LENGTH = 24


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def vllm_rollouts(
    engine: InProcessEngine, prompts: list[list[int]], lengths: Sequence[int]
) -> None:
    """Draw exactly `lengths` tokens for the prompts."""
    requests = [
        EngineRequest(
            place=place,
            prompt_ids=tuple(prompt),
            params={"max_tokens": length, "ignore_eos": True, "detokenize": False, "logprobs": 0,
                    "seed": place},
            copies=1,
        )
        for place, (prompt, length) in enumerate(zip(prompts, lengths, strict=True))
    ]  # fmt: skip
    outputs = engine.generate(requests, 0)
    assert [len(output.outputs[0].token_ids) for output in outputs] == list(lengths)


@torch.no_grad()
def plain_rollouts(policy: CausalPolicy, prompts: list[list[int]], lengths: Sequence[int]) -> None:
    """Draw as many tokens as the longest response has for all prompts, as padding does."""
    ids = torch.tensor(prompts)
    model: Any = policy.model  # transformers types `generate` on a mixin only
    drawn = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        min_new_tokens=max(lengths),
        max_new_tokens=max(lengths),
        pad_token_id=policy.pad_token_id,
    )
    assert drawn.shape[1] == PROMPT_LENGTH + max(lengths)


def main() -> None:
    """Measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", help="as model.policy.path")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    policy = PolicySpec(path=options.policy).load()
    policy.eval()
    engine = InProcessEngine(policy, EngineOptions(max_model_len=512))
    engine.load(whole_weights(policy.model))
    draw = random.Random(0)
    size = policy.model.config.get_text_config().vocab_size
    prompts = [
        [draw.randrange(size) for _ in range(PROMPT_LENGTH)] for _ in range(options.requests)
    ]
    for name, lengths in (
        (f"{options.tokens} tokens each", [options.tokens] * options.requests),
        ("4 to 128 tokens", [draw.randint(4, 128) for _ in range(options.requests)]),
    ):
        rates = []
        for _ in range(options.rounds):
            vllm = sum(lengths) / seconds(partial(vllm_rollouts, engine, prompts, lengths))
            plain = sum(lengths) / seconds(partial(plain_rollouts, policy, prompts, lengths))
            rates.append((vllm, plain))
            print(f"{name}: vLLM {vllm:.0f}, generate {plain:.0f} tokens/s, {vllm / plain:.2f}")
        print(f"{name}: median ratio {median(a / b for a, b in rates):.2f}", flush=True)
    weights = dict(whole_weights(policy.model))
    gigabytes = sum(value.nbytes for value in weights.values()) / 1e9
    copies = {name: torch.empty_like(value) for name, value in weights.items()}
    for _ in range(options.rounds):
        push = seconds(lambda: engine.load(whole_weights(policy.model)))
        copy = seconds(lambda: [copies[name].copy_(value) for name, value in weights.items()])
        print(
            f"push of {gigabytes:.2f} GB: {push:.2f} s, {gigabytes / push:.2f} GB/s; plain copy "
            f"{copy:.2f} s, {gigabytes / copy:.2f} GB/s"
        )
    engine.close()


if __name__ == "__main__":
    main()

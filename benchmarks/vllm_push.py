"""Pushes of weights to vLLM servers beside a plain copy of the same tensors, in turns.

    python scripts/serve_vllm.py models/smollm2 --dtype float32 --max-model-len 512
    python benchmarks/vllm_push.py models/smollm2

Prints, for each round and as medians, seconds and GB/s of a whole push, from the trainer's tensors
to a server that takes requests again, and of the copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.vllm_server import VLLMServerSampler
from gtpo_lit.sampling.weights import whole_weights


def seconds(work: Callable[[], object]) -> float:
    """How long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Measure in turns, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policy", help="as model.policy.path")
    parser.add_argument("--urls", nargs="+", default=["http://127.0.0.1:8000"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    policy = PolicySpec(path=options.policy).load()
    sampler = VLLMServerSampler(urls=options.urls)
    weights = dict(whole_weights(policy.model))
    gigabytes = sum(value.nbytes for value in weights.values()) / 1e9
    copies = {name: torch.empty_like(value) for name, value in weights.items()}

    def copy() -> None:
        for name, value in weights.items():
            copies[name].copy_(value)

    # The first of each touches fresh memory, or packs weights for the first time.
    sampler.push_weights(policy, 0)
    copy()
    rounds = []
    for version in range(1, options.rounds + 1):
        push = seconds(partial(sampler.push_weights, policy, version))
        rounds.append((push, seconds(copy)))
        print(f"push {rounds[-1][0]:.2f} s, plain copy {rounds[-1][1]:.2f} s", flush=True)
    push, plain = (median(column) for column in zip(*rounds, strict=True))
    print(
        f"{gigabytes:.2f} GB to {len(options.urls)} server(s): push {push:.2f} s, "
        f"{gigabytes / push:.2f} GB/s; plain copy {plain:.2f} s, {gigabytes / plain:.2f} GB/s"
    )
    sampler.close()


if __name__ == "__main__":
    main()

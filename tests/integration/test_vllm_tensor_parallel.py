"""One real engine over two ranks: each rank's own requests, with log-probs of the policy."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling.vllm import VLLMSampler
from gtpo_lit.types import SampleRequest, SamplingSettings

pytestmark = pytest.mark.vllm


def draw(rank, model, file):
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    policy = PolicySpec(path=model).load()
    sampler = VLLMSampler(tensor_parallel=2, kv_cache_mib=64)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(0.7)
    # One request on the first rank, two on the second one.
    asked = [
        SampleRequest(prompt_ids=(4 + rank, 5, 6 + place), seeds=(rank * 10 + place, 7))
        for place in range(1 + rank)
    ]
    for version in range(2):
        sampler.push_weights(policy, version)
        found = sampler.generate(asked, SamplingSettings(temperature=0.7, max_tokens=10))
        assert [len(rows) for rows in found] == [2] * len(asked)
        for request, rows in zip(asked, found, strict=True):
            for row in rows:
                ids = torch.tensor([[*request.prompt_ids, *row.token_ids]])
                with torch.no_grad():
                    logp, _ = policy(
                        ids, torch.ones_like(ids).bool(), len(row.token_ids), temperature=0.7
                    )
                assert row.logprobs == pytest.approx(logp[0].tolist(), abs=1e-5)
        with torch.no_grad():
            policy.model.get_input_embeddings().weight.mul_(1.1)
    sampler.close()
    # The trainer's group is still there, and works.
    total = torch.tensor(float(rank))
    dist.all_reduce(total)
    assert total == 1.0
    dist.destroy_process_group()


def test_two_ranks_share_one_engine(tiny_llama, tmp_path):
    multiprocessing.spawn(draw, (str(tiny_llama), tmp_path / "group"), nprocs=2)

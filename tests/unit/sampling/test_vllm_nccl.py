"""What is sent from GPU to GPU, without GPUs; the sending itself is vLLM's."""

import pytest
import torch

from gtpo_lit.policy import PolicySpec
from gtpo_lit.policy_lora import LoRA
from gtpo_lit.sampling.vllm_nccl import source_of
from gtpo_lit.sampling.weights import whole_weights

pytestmark = pytest.mark.vllm


def test_merged_adapters_are_sent_under_the_names_of_the_base(tiny_qwen2):
    policy = PolicySpec(path=str(tiny_qwen2), lora=LoRA(rank=4, seed=0)).load()
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    plain = source_of(PolicySpec(path=str(tiny_qwen2)).load().model)
    merged = source_of(policy.model)
    assert merged.metadata() == plain.metadata()
    wanted = dict(whole_weights(policy.model))
    sent = dict(merged)
    assert sent.keys() == wanted.keys() == dict(plain).keys()
    for name, value in sent.items():
        assert torch.equal(value, wanted[name])
    changed = [name for name, value in plain if not torch.equal(value, sent[name])]
    assert len(changed) == 14
    assert sum(len(names) for names, _ in merged.iter_groups()) == len(sent)

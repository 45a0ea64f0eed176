from __future__ import annotations

import pytest
import torch

from gtpo_lit.policy import PolicySpec
from gtpo_lit.policy_base import BasePolicy, refuse_other_base
from gtpo_lit.policy_lora import LoRA

IDS = torch.randint(4, 56, (2, 9), generator=torch.Generator().manual_seed(0))
ALL = torch.ones_like(IDS).bool()


@pytest.fixture
def policy(tiny_qwen2):
    adapted = PolicySpec(path=str(tiny_qwen2), lora=LoRA(rank=4, seed=0)).load()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.fill_(0.1)
    return adapted


def test_it_scores_as_the_policy_without_adapters_and_without_gradient(policy, tiny_qwen2):
    base, plain = BasePolicy(policy), PolicySpec(path=str(tiny_qwen2)).load()
    logp, entropy = base(IDS, ALL, 4, temperature=0.7)
    wanted = plain(IDS, ALL, 4, temperature=0.7)
    assert torch.equal(logp, wanted[0])
    assert torch.equal(entropy, wanted[1])
    assert not logp.requires_grad
    assert torch.equal(base(IDS, ALL, 4, temperature=0.7, with_entropy=False)[0], logp)
    assert torch.equal(base.next_token_logits(IDS, ALL)[0], plain.next_token_logits(IDS, ALL)[0])
    adapted = policy(IDS, ALL, 4, temperature=0.7)[0]
    assert float((adapted - logp).detach().abs().max()) > 0.1
    assert adapted.requires_grad


def test_it_has_no_weights_of_its_own(policy):
    base = BasePolicy(policy)
    ours = {parameter.data_ptr() for parameter in base.parameters()}
    assert ours == {parameter.data_ptr() for parameter in policy.parameters()}


def test_an_error_while_it_scores_leaves_the_policy_adapted(policy):
    before = policy(IDS, ALL, 4)[0]
    with pytest.raises(IndexError):
        BasePolicy(policy)(IDS + 1000, ALL, 4)
    assert torch.equal(policy(IDS, ALL, 4)[0], before)


def test_its_meaning_tells_the_base(policy, tiny_qwen2):
    spec = PolicySpec(path=str(tiny_qwen2), lora=LoRA(rank=4))
    plain = PolicySpec(path=str(tiny_qwen2)).load()
    assert BasePolicy(policy).meaning(spec) == {
        "path": str(tiny_qwen2),
        "dtype": "float32",
        "sha256": plain.fingerprint(),
    }


def test_another_base_is_refused_by_name_and_a_moved_one_is_not():
    base = {"path": "a/model", "dtype": "float32", "sha256": "1" * 64}
    refuse_other_base(base, base | {"path": "b/moved"})
    refuse_other_base(None, None)
    other = {"path": "b/model", "dtype": "bfloat16", "sha256": "2" * 64}
    with pytest.raises(ValueError, match="model.policy.path") as error:
        refuse_other_base(base, other)
    assert f"'a/model' in float32 (SHA-256 {'1' * 16})" in str(error.value)
    assert f"'b/model' in bfloat16 (SHA-256 {'2' * 16})" in str(error.value)
    with pytest.raises(ValueError, match=r"model.policy.lora.*whole weights and no adapters"):
        refuse_other_base(None, base)
    with pytest.raises(ValueError, match=r"holds adapters of 'a/model'.*give model.policy.lora"):
        refuse_other_base(base, None)

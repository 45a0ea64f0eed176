"""A policy that is made without memory, split and filled is the one that was saved."""

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor

from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.sharding import is_sharded
from gtpo_lit.sharding.shard import blocks
from gtpo_lit.types import SampleRequest, SamplingSettings

IDS = torch.randint(4, 14, (3, 12), generator=torch.Generator().manual_seed(0))
SEEN = torch.ones_like(IDS).bool()


@pytest.mark.parametrize("model", ["embedded", "tiny_untied", "tiny_llama", "tiny_qwen2"])
def test_scores_and_gradients_are_those_of_the_whole_policy(model, load, request):
    path = "embedded:chains" if model == "embedded" else request.getfixturevalue(model)
    sharded, single = load(path)
    results = []
    for policy in (sharded, single):
        logp, entropy = policy(IDS, SEEN, 6, temperature=0.7)
        (logp.sum() + entropy.sum()).backward()
        results.append((logp.detach(), entropy.detach()))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)
    gradients = dict(single.named_parameters())
    assert [name for name, _ in sharded.named_parameters()] == list(gradients)
    for name, parameter in sharded.named_parameters():
        assert isinstance(parameter, DTensor), name
        torch.testing.assert_close(parameter.grad.full_tensor(), gradients[name].grad)


def test_nothing_is_left_without_memory(load):
    sharded, single = load()
    buffers = dict(single.named_buffers())
    assert [name for name, _ in sharded.named_buffers()] == list(buffers)
    for name, value in sharded.named_buffers():
        assert torch.equal(value, buffers[name]), name
    assert not any(value.is_meta for value in sharded.parameters())


def test_it_is_known_by_the_same_fingerprint(load):
    sharded, single = load()
    assert (is_sharded(sharded), is_sharded(single)) == (True, False)
    assert sharded.fingerprint() == single.fingerprint()


def test_its_export_is_the_policy(load, tmp_path):
    sharded, single = load()
    sharded.export(tmp_path / "out")
    again, _ = load(tmp_path / "out")
    assert again.fingerprint() == single.fingerprint()
    with pytest.raises(ValueError, match="exists and is not empty"):
        sharded.export(tmp_path / "out")


def assert_same_draws(ours, theirs):
    assert [one.token_ids for one in ours[0]] == [one.token_ids for one in theirs[0]]
    for one, other in zip(ours[0], theirs[0], strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_a_sampler_draws_from_it_and_follows_its_weights(load):
    sharded, single = load()
    asked = [SampleRequest(prompt_ids=(4, 12, 5, 13), seeds=(1, 2, 3))]
    ours, theirs = TransformersSampler(), TransformersSampler()
    theirs.push_weights(single, 0)
    with torch.no_grad():
        state = torch.get_rng_state()
        ours.push_weights(sharded, 0)
        assert torch.equal(torch.get_rng_state(), state)
        settings = SamplingSettings(max_tokens=8)
        assert_same_draws(ours.generate(asked, settings), theirs.generate(asked, settings))
        for policy in (sharded, single):
            for parameter in policy.parameters():
                parameter.mul_(0.5)
        ours.push_weights(sharded, 0)  # the same version: nothing is copied
        before = ours.generate(asked, settings)
        ours.push_weights(sharded, 1)
        after = ours.generate(asked, settings)
        assert_same_draws(after, theirs.generate(asked, settings))
        assert [one.token_ids for one in after[0]] != [one.token_ids for one in before[0]]


def test_a_model_that_does_not_load_says_why(load):
    with pytest.raises(ValueError, match=r"model.policy.path: no embedded model 'embedded:none'"):
        load("embedded:none")


def test_blocks_are_the_longest_list():
    model = nn.ModuleDict({"few": nn.ModuleList([nn.Linear(1, 1)])})
    model["layers"] = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    assert blocks(model) == list(model["layers"])
    with pytest.raises(ValueError, match="Linear has no list of blocks"):
        blocks(nn.Linear(1, 1))

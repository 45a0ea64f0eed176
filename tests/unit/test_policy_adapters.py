from __future__ import annotations

import copy
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from gtpo_lit.policy import CausalPolicy, PolicySpec
from gtpo_lit.policy_adapters import (
    adapt,
    adapted_layers,
    adapters_off,
    is_adapter,
    merged_state,
    merged_weight,
)
from gtpo_lit.policy_lora import LoRA

PROMPT, RESPONSE = 4, 5


def batch(rows: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random tokens without padding but one padded row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 56, (rows, PROMPT + RESPONSE), generator=generator)
    attention = torch.ones_like(ids).bool()
    attention[0, :2] = attention[0, -2:] = False
    return ids.masked_fill(~attention, 0), attention


def load(folder, *, moved: bool = True, **options) -> CausalPolicy:
    """A policy with adapters; with `moved`, none of them is 0."""
    lora = options.pop("lora", {})
    spec = PolicySpec(
        path=str(folder), lora=LoRA(**{"rank": 4, "alpha": 6.0, "seed": 1} | lora), **options
    )
    policy = spec.load()
    if moved:
        move(policy)
    return policy


@torch.no_grad()
def move(policy: CausalPolicy, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in policy.named_parameters():
        if "lora_B" in name:
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))


@pytest.fixture(params=["tiny_qwen2", "tiny_llama", "tiny_untied"])
def folder(request: pytest.FixtureRequest):
    return request.getfixturevalue(request.param)


def plain_adapter(policy: CausalPolicy, folder) -> nn.Module:
    """The base with every adapted layer's map written out: W x + b + 6/4 B A x."""
    model = AutoModelForCausalLM.from_pretrained(folder)
    for name, layer in adapted_layers(policy.model).items():
        linear = model.get_submodule(name.removesuffix(".weight"))
        down, up = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        linear.register_forward_hook(
            lambda _m, x, y, down=down, up=up: y + 1.5 * (x[0] @ down.T) @ up.T
        )
    return model


def test_scores_equal_the_map_written_out(folder):
    policy = load(folder)
    ids, attention = batch()
    logp, entropy = policy(ids, attention, RESPONSE, temperature=0.8)
    model = plain_adapter(policy, folder)
    for row in range(1, len(ids)):
        logits = model(input_ids=ids[row : row + 1]).logits[0, PROMPT - 1 : -1] / 0.8
        expected = torch.distributions.Categorical(logits=logits)
        chosen = expected.log_prob(ids[row, PROMPT:])
        torch.testing.assert_close(logp[row], chosen, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(entropy[row], expected.entropy(), rtol=1e-5, atol=1e-5)


def test_an_adapted_policy_starts_as_its_base_to_the_bit(folder):
    ids, attention = batch()
    base = PolicySpec(path=str(folder)).load()(ids, attention, RESPONSE)
    adapted = load(folder, moved=False)(ids, attention, RESPONSE)
    assert all(torch.equal(one, other) for one, other in zip(base, adapted, strict=True))


def test_adapters_alone_are_trained_and_the_frozen_head_costs_no_gradient(folder):
    policy = load(folder, chunk_size=2)
    logp, entropy = policy(*batch(), RESPONSE)
    (logp.sum() + entropy.sum()).backward()
    for name, parameter in policy.named_parameters():
        assert parameter.requires_grad == is_adapter(name)
        assert (parameter.grad is not None) == is_adapter(name)
        assert parameter.grad is None or float(parameter.grad.abs().sum()) > 0


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_gradients_equal_those_of_the_map_written_out(folder, chunk_size):
    policy = load(folder, chunk_size=chunk_size)
    ids, attention = batch()
    policy(ids, attention, RESPONSE)[0][1:].sum().backward()
    got = {n: p.grad.clone() for n, p in policy.named_parameters() if p.grad is not None}
    policy.zero_grad()
    logits = plain_adapter(policy, folder)(input_ids=ids[1:]).logits[:, PROMPT - 1 : -1]
    expected = torch.distributions.Categorical(logits=logits)
    expected.log_prob(ids[1:, PROMPT:]).sum().backward()
    wanted = {n: p.grad for n, p in policy.named_parameters() if p.grad is not None}
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-4, atol=1e-4)


def test_gradient_checkpointing_gives_the_same_gradient(folder):
    gradients = []
    for checkpointing in (False, True):
        policy = load(folder, gradient_checkpointing=checkpointing)
        policy(*batch(), RESPONSE)[0].sum().backward()
        gradients.append([p.grad for p in policy.parameters() if p.requires_grad])
    assert policy.model.is_gradient_checkpointing
    for one, other in zip(*gradients, strict=True):
        assert float(one.abs().sum()) > 0
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_initial_adapters_are_a_function_of_the_seed_and_the_name(tiny_qwen2):
    torch.manual_seed(5)
    run = load(tiny_qwen2, moved=False, lora={"seed": None}).state_dict()
    torch.rand(7)  # the seed counts, not how far its stream is
    again = load(tiny_qwen2, moved=False, lora={"seed": None}).state_dict()
    given = load(tiny_qwen2, moved=False, lora={"seed": 5, "target_modules": ("v_proj",)})
    other = load(tiny_qwen2, moved=False, lora={"seed": 6}).state_dict()
    for name, value in run.items():
        assert torch.equal(value, again[name])
        if "lora_B" in name:
            assert (value == 0).all()
        else:
            bound = value.shape[1] ** -0.5
            assert 0.9 * bound < float(value.abs().max()) < bound
            assert abs(float(value.mean())) < 0.2 * bound
            assert not torch.equal(value, other[name])
    assert len({value.flatten()[0].item() for n, value in run.items() if "lora_A" in n}) == 14
    for name, value in given.state_dict().items():
        assert torch.equal(value, run[name])


def test_loading_leaves_global_random_streams_alone(tiny_qwen2):
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    before = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy())
    load(tiny_qwen2, lora={"seed": None}, moved=False)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()


def test_adapters_of_a_bfloat16_base_are_in_float32(tiny_qwen2):
    policy = load(tiny_qwen2, dtype="bfloat16")
    for name, parameter in policy.named_parameters():
        assert parameter.dtype == (torch.float32 if is_adapter(name) else torch.bfloat16)
    policy(*batch(), RESPONSE)[0].sum().backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in policy.parameters() if p.requires_grad)


def test_a_model_without_memory_takes_adapters(tiny_qwen2):
    config = AutoModelForCausalLM.from_pretrained(tiny_qwen2).config
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    policy = CausalPolicy(model, PolicySpec(path=str(tiny_qwen2)).load_tokenizer())
    adapt(policy, LoRA(rank=4))
    wanted = {name: p.shape for name, p in load(tiny_qwen2).named_parameters()}
    assert {name: p.shape for name, p in policy.named_parameters()} == wanted
    assert all(p.is_meta for p in policy.parameters())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_merged_weight_is_the_sum_by_hand(tiny_qwen2, dtype):
    policy = load(tiny_qwen2, dtype=dtype)
    before = {name: value.clone() for name, value in policy.model.state_dict().items()}
    layer = policy.model.model.layers[1].mlp.down_proj
    weight = layer.base_layer.weight
    down, up = (part["default"].weight for part in (layer.lora_A, layer.lora_B))
    exact = weight.double() + 6 / 4 * up.double() @ down.double()
    merged = merged_weight(layer, weight)
    assert merged.dtype == weight.dtype
    assert not merged.requires_grad
    near = {"float32": 1e-6, "bfloat16": 2**-8}[dtype]
    torch.testing.assert_close(merged.double(), exact, rtol=near, atol=near)
    # Rounded once, from float32.
    assert torch.equal(merged, exact.float().to(weight.dtype)) or dtype == "float32"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(merged_weight(layer, weight), merged)
    for name, value in policy.model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_the_merged_state_fills_a_model_without_adapters(folder):
    policy = load(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert set(merged_state(policy.model)) == set(model.state_dict())
    model.load_state_dict(merged_state(policy.model))
    ids, attention = batch()
    merged = CausalPolicy(model, policy.tokenizer)
    for one, other in zip(
        policy(ids, attention, RESPONSE), merged(ids, attention, RESPONSE), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)


def test_the_state_holds_adapters_alone_and_loads_strictly(folder):
    policy, twin = load(folder), load(folder, lora={"seed": 2})
    state = policy.state_dict()
    assert list(state) == [name for name, p in policy.named_parameters() if p.requires_grad]
    outer = nn.ModuleDict({"policy": twin, "other": nn.Linear(1, 1)})
    assert len(outer.state_dict()) == len(state) + 2
    base = {name: value.clone() for name, value in twin.model.state_dict().items()}
    given = {f"policy.{name}": value for name, value in state.items()}
    given |= {"other.weight": torch.ones(1, 1), "other.bias": torch.ones(1)}
    outer.load_state_dict(given)
    assert policy.fingerprint() == twin.fingerprint()
    for name, value in twin.model.state_dict().items():
        assert is_adapter(name) or torch.equal(value, base[name])
    missing, surplus = next(iter(given)), "policy.model.surplus"
    value = given.pop(missing)
    with pytest.raises(RuntimeError, match=f"Missing key.*{missing}"):
        outer.load_state_dict(given)
    with pytest.raises(RuntimeError, match=f"Unexpected key.*{surplus}"):
        outer.load_state_dict({**given, missing: value, surplus: value})


def test_a_copy_keeps_all_that(tiny_qwen2):
    policy = load(tiny_qwen2)
    twin = copy.deepcopy(policy)
    with torch.no_grad():
        twin.model.model.embed_tokens.weight.zero_()
    assert list(twin.state_dict()) == list(policy.state_dict())
    twin.load_state_dict(policy.state_dict())
    assert (twin.model.model.embed_tokens.weight == 0).all()


def test_dropout_is_in_passes_with_gradient_alone(tiny_qwen2):
    policy = load(tiny_qwen2, lora={"dropout": 0.5})
    still = load(tiny_qwen2)
    assert policy.training
    ids, attention = batch()
    with torch.no_grad():
        scored = policy(ids, attention, RESPONSE)[0]
        assert torch.equal(scored, still(ids, attention, RESPONSE)[0])
    torch.manual_seed(0)
    first = policy(ids, attention, RESPONSE)[0]
    assert float((first - scored).detach().abs().max()) > 1e-3
    torch.manual_seed(0)
    assert torch.equal(policy(ids, attention, RESPONSE)[0], first)


def test_adapters_are_on_again_after_an_error(tiny_qwen2):
    policy, base = load(tiny_qwen2), PolicySpec(path=str(tiny_qwen2)).load()
    ids, attention = batch()
    adapted = policy(ids, attention, RESPONSE)[0]
    trained = [p.requires_grad for p in policy.parameters()]

    def fail() -> None:
        with adapters_off(policy.model):
            got = policy(ids, attention, RESPONSE)[0]
            assert torch.equal(got, base(ids, attention, RESPONSE)[0])
            assert [p.requires_grad for p in policy.parameters()] == trained
            with adapters_off(policy.model):
                pass
            assert torch.equal(policy(ids, attention, RESPONSE)[0], got)
            raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        fail()
    assert torch.equal(policy(ids, attention, RESPONSE)[0], adapted)
    assert [p.requires_grad for p in policy.parameters()] == trained


def test_the_export_is_merged_and_plain(folder, tmp_path):
    policy = load(folder)
    ids, attention = batch()
    with torch.no_grad():
        logp = policy(ids, attention, RESPONSE)[0]
    before = policy.fingerprint()
    policy.export(tmp_path / "export")
    assert policy.fingerprint() == before
    model, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "export", output_loading_info=True
    )
    assert not any(report[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert not list((tmp_path / "export").glob("adapter*"))
    again = CausalPolicy(model, policy.tokenizer)
    torch.testing.assert_close(again(ids, attention, RESPONSE)[0], logp, rtol=1e-4, atol=2e-5)


def test_fingerprints_of_base_and_whole(folder):
    policy, base = load(folder), PolicySpec(path=str(folder)).load()
    assert policy.fingerprint(base=True) == base.fingerprint() == base.fingerprint(base=True)
    whole = policy.fingerprint()
    move(policy, seed=1)
    assert policy.fingerprint() != whole
    assert policy.fingerprint(base=True) == base.fingerprint()

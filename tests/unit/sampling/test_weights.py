import pytest
import torch
from torch import nn

from gtpo_lit.policy import PolicySpec
from gtpo_lit.policy_lora import LoRA
from gtpo_lit.sampling.weights import named_weights, whole_weights


def test_every_weight_comes_once_under_its_name(tiny_qwen2, tiny_untied):
    for folder, head in ((tiny_qwen2, False), (tiny_untied, True)):
        model = PolicySpec(path=str(folder)).load().model
        found = dict(whole_weights(model))
        assert ("lm_head.weight" in found) == head
        assert list(found) == [name for name, _ in model.named_parameters()]
        for name, parameter in model.named_parameters():
            assert torch.equal(found[name], parameter)
            assert not found[name].requires_grad


def test_saved_buffers_come_too_and_others_do_not():
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    module.register_buffer("bias", torch.full((2,), 3.0))
    module.register_buffer("cache", torch.zeros(2), persistent=False)
    assert [(name, value.tolist()) for name, value in whole_weights(module)] == [
        ("weight", [1.0, 1.0]),
        ("bias", [3.0, 3.0]),
    ]


def test_a_sharded_weight_is_made_whole_when_its_turn_comes():
    made = []

    class Shard(nn.Module):
        def state_dict(self, *_args, **_options):
            return {"a": Sharded("a"), "b": Sharded("b")}

        def named_parameters(self, *_args, **_options):
            return iter([("a", None), ("b", None)])

    class Sharded:
        def __init__(self, name):
            self.name = name

        def full_tensor(self):
            made.append(self.name)
            return torch.zeros(1)

    walk = whole_weights(Shard())
    assert next(walk)[0] == "a"
    assert made == ["a"]


def adapted(folder, dtype="float32"):
    spec = PolicySpec(path=str(folder), dtype=dtype, lora=LoRA(rank=4, alpha=6.0, seed=0))
    model = spec.load().model
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("folder", ["tiny_qwen2", "tiny_untied"])
def test_adapters_are_merged_under_the_names_of_the_base(request, folder, dtype):
    folder = request.getfixturevalue(folder)
    base, model = PolicySpec(path=str(folder), dtype=dtype).load().model, adapted(folder, dtype)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = dict(whole_weights(model))
    assert list(found) == [name for name, _ in base.named_parameters()]
    listed = named_weights(model)
    assert [(n, v.shape, v.dtype) for n, v in listed] == [
        (n, v.shape, v.dtype) for n, v in found.items()
    ]
    merged = 0
    for name, weight in base.named_parameters():
        layer = model.get_submodule(name.rsplit(".", 1)[0])
        if hasattr(layer, "lora_A") and name.endswith(".weight"):
            down, up = (part["default"].weight for part in (layer.lora_A, layer.lora_B))
            weight = (weight.float() + 1.5 * up @ down).to(weight.dtype)
            merged += 1
        near = 2**-8 if dtype == "bfloat16" else 1e-6
        torch.testing.assert_close(found[name], weight, rtol=near, atol=near)
    assert merged == 14
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_one_layer_is_merged_at_a_time(tiny_qwen2, monkeypatch):
    model, merged = adapted(tiny_qwen2), []
    monkeypatch.setattr(
        "gtpo_lit.sampling.weights.merged_weight",
        lambda _layer, weight: merged.append(None) or weight,
    )
    counts = [len(merged) for _ in whole_weights(model)]
    names = [name for name, _ in named_weights(model)]
    is_layer = [name.endswith("proj.weight") for name in names]
    assert counts == [sum(is_layer[: place + 1]) for place in range(len(names))]


def test_an_untouched_weight_is_the_models_own_memory(tiny_qwen2):
    model = adapted(tiny_qwen2)
    embedding = dict(whole_weights(model))["model.embed_tokens.weight"]
    assert embedding.data_ptr() == model.model.embed_tokens.weight.data_ptr()

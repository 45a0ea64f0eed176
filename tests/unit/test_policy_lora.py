from __future__ import annotations

import importlib.util

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from gtpo_lit.policy import PolicySpec
from gtpo_lit.policy_lora import LoRA

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@pytest.fixture
def model(tiny_untied):
    return AutoModelForCausalLM.from_pretrained(tiny_untied)


def test_all_linear_layers_but_the_head_are_the_default(model):
    names = LoRA().targets(model)
    parts = [
        "self_attn." * (place < 4) + "mlp." * (place > 3) + n for place, n in enumerate(LINEAR)
    ]
    assert names == [f"model.layers.{layer}.{part}" for layer in (0, 1) for part in parts]


def test_names_match_by_their_ends_at_a_dot(model):
    assert LoRA(target_modules=("v_proj", "layers.1.mlp.up_proj")).targets(model) == [
        "model.layers.0.self_attn.v_proj",
        "model.layers.1.self_attn.v_proj",
        "model.layers.1.mlp.up_proj",
    ]


@pytest.mark.parametrize("name", ["proj", "qproj", "self_attn", "model", "layers.2.mlp.up_proj"])
def test_a_name_that_matches_no_linear_layer_is_told_those_that_exist(model, name):
    with pytest.raises(ValueError, match="target_modules: no linear layer is called") as error:
        LoRA(target_modules=("q_proj", name)).targets(model)
    assert f"{name!r}; there are {sorted(LINEAR)}" in str(error.value)


@pytest.mark.parametrize("name", ["lm_head", "embed_tokens", "model.embed_tokens"])
@pytest.mark.parametrize("folder", ["tiny_qwen2", "tiny_untied"])
def test_head_and_embedding_are_refused_tied_or_not(request, folder, name):
    model = AutoModelForCausalLM.from_pretrained(request.getfixturevalue(folder))
    with pytest.raises(ValueError, match=f"{name!r} is the model's embedding or output head"):
        LoRA(target_modules=(name,)).targets(model)


def test_a_model_without_linear_layers_is_refused():
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="GPT2LMHeadModel has no linear layer but its head"):
        LoRA().targets(model)


def test_wrong_names_are_found_before_weights_load(tiny_qwen2, monkeypatch):
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", None)
    spec = PolicySpec(path=str(tiny_qwen2), lora=LoRA(target_modules=("query",)))
    with pytest.raises(ValueError, match="no linear layer is called 'query'"):
        spec.check()
    with pytest.raises(ValueError, match="no linear layer is called 'query'"):
        spec.load()


def test_missing_peft_is_a_hint_of_one_line_before_weights_load(tiny_qwen2, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: None if name == "peft" else found(name)
    )
    with pytest.raises(ValueError, match=r"needs peft.*pip install 'gtpo-lit\[lora\]'"):
        PolicySpec(path=str(tiny_qwen2), lora=LoRA()).check()
    PolicySpec(path=str(tiny_qwen2)).check()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"alpha": 0.0}, "alpha must be above 0 and finite, got 0.0"),
        ({"alpha": float("inf")}, "alpha must be above 0 and finite, got inf"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
        ({"target_modules": ()}, r"target_modules must be null, or at least one name, got \(\)"),
        ({"seed": -1}, r"seed must be from 0 to 2\*\*64 - 1, got -1"),
    ],
)
def test_values_that_cannot_be_right_are_refused(values, message):
    with pytest.raises(ValueError, match=f"model.policy.lora.{message}"):
        LoRA(**values)


def test_the_size_that_the_docs_tell_for_qwen2_5_7b():
    config = Qwen2Config(
        vocab_size=152064,
        hidden_size=3584,
        intermediate_size=18944,
        num_hidden_layers=28,
        num_attention_heads=28,
        num_key_value_heads=4,
        tie_word_embeddings=False,
    )
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config)
    layers = dict(model.named_modules())
    shapes = [layers[name].weight.shape for name in LoRA().targets(model)]
    assert len(shapes) == 28 * 7
    assert sum(16 * (rows + columns) for rows, columns in shapes) == 40_370_176
    assert sum(p.numel() for p in model.parameters()) == 7_615_616_512

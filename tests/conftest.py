"""Shared fixtures: tiny random models with a character tokenizer, as Hugging Face folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

# Examples are drawn the same way everywhere, and a busy machine is not a failure.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")
os.environ["HF_HUB_OFFLINE"] = "1"

SPECIAL = ["<pad>", "<eos>", "<bos>", "<unk>"]
CHARACTERS = "0123456789+-*/=() abcdefghijklmnopqrstuvwxyz.,;?!:\n<>"


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token a character; <pad> 0, <eos> 1, <bos> 2, <unk> 3, "0" to "9" are 4 to 13."""
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        unk_token="<unk>",
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return fast


def make_model(architecture: str = "qwen2", **changes: object) -> PreTrainedModel:
    """Two layers, head size 32, vocabulary 64; seeded weights, large enough to be peaked."""
    settings: dict[str, object] = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 256,
        "tie_word_embeddings": True,
        "eos_token_id": 1,
        "bos_token_id": 2,
        "pad_token_id": 0,
        **changes,
    }
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if architecture == "qwen2":
            model: PreTrainedModel = Qwen2ForCausalLM(Qwen2Config(**settings))
        else:
            model = LlamaForCausalLM(LlamaConfig(**settings))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(10.0)
    return model.float().eval()


def save_model(model: PreTrainedModel, folder: Path) -> Path:
    model.save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_qwen2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Qwen2 with tied head. Read only."""
    return save_model(make_model("qwen2"), tmp_path_factory.mktemp("models") / "tiny_qwen2")


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Llama with tied head. Read only."""
    return save_model(make_model("llama"), tmp_path_factory.mktemp("models") / "tiny_llama")


@pytest.fixture(scope="session")
def tiny_untied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Qwen2 whose head is not tied to the embedding. Read only."""
    model = make_model("qwen2", tie_word_embeddings=False)
    return save_model(model, tmp_path_factory.mktemp("models") / "tiny_untied")


@pytest.fixture(scope="session")
def tiny_untied_llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Llama whose head is not tied to the embedding. Read only."""
    model = make_model("llama", tie_word_embeddings=False)
    return save_model(model, tmp_path_factory.mktemp("models") / "tiny_untied_llama")


@pytest.fixture(scope="session")
def tiny_two_ends(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Qwen2 with end tokens 1 and 5 ("1") in its generation config. Read only."""
    model = make_model("qwen2")
    model.generation_config = GenerationConfig(eos_token_id=[1, 5], pad_token_id=0)
    return save_model(model, tmp_path_factory.mktemp("models") / "tiny_two_ends")


@pytest.fixture
def dataset_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the `datasets` library reads is kept in a folder of the test's own; no hub is asked."""
    import datasets
    import huggingface_hub.constants

    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "datasets_cache"))

"""What every test shares."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings

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
torch.set_num_threads(1)


def character_tokenizer(*, bos=False):
    """One token a character: Llama-like with a BOS that its post-processor adds, or without."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    characters = "0123456789+=;?abcdefghijklmnopqrstuvwxyzAWU .<>|_\n"
    vocabulary = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3}
    vocabulary |= {character: index for index, character in enumerate(characters, start=4)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", 2)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        **({"bos_token": "<bos>"} if bos else {}),
    )


def random_model(kind="qwen2", *, tied=True, seed=0, vocab_size=64):
    """A random causal language model with heads of 32 and far from even logits."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    options = {
        "vocab_size": vocab_size,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "tie_word_embeddings": tied,
        "eos_token_id": 1,
        "bos_token_id": None,
        "pad_token_id": 0,
    }
    if kind == "llama":
        model = LlamaForCausalLM(LlamaConfig(**options))
    else:
        model = Qwen2ForCausalLM(Qwen2Config(**options))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3.0)
    return model.float().eval()


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A random model with its tokenizer, as a Hugging Face folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    random_model().save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


@pytest.fixture
def make_tokenizer():
    """Builds a character tokenizer."""
    return character_tokenizer


@pytest.fixture
def make_policy():
    """Builds a policy around a random model."""
    from gtpo_lit.policy import CausalPolicy

    def build(kind="qwen2", *, tied=True, chunk_size=None, seed=0):
        model = random_model(kind, tied=tied, seed=seed)
        return CausalPolicy(model, character_tokenizer(), chunk_size=chunk_size)

    return build

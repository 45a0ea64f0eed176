"""The policy `chains` as it is shipped."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from gtpo_lit.embedded.make_chains import make_tokenizer
from gtpo_lit.embedded.measure import measure
from gtpo_lit.tasks import ChainSource

FOLDER = Path(str(files("gtpo_lit") / "embedded" / "chains"))

OFFLINE = """
import socket, sys

def refuse(*args, **kwargs):
    raise OSError("the network was asked for")

socket.socket.connect = refuse
from transformers import AutoModelForCausalLM, AutoTokenizer
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], use_safetensors=True)
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(type(model).__name__, tokenizer("3+4=")["input_ids"])
"""


@pytest.fixture(scope="module")
def model():
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


def stated(what: str) -> float:
    """The figure that the card gives for `what`."""
    found = re.search(rf"^\| {re.escape(what)} \| ([\d.]+) \|$", card(), re.MULTILINE)
    assert found, what
    return float(found[1])


def card() -> str:
    return (FOLDER / "README.md").read_text(encoding="ascii")


def test_loads_offline_without_any_connection(tmp_path):
    result = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(FOLDER)],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "Qwen2ForCausalLM [6, 13, 7, 14]"


def test_size(model):
    assert sum(parameter.numel() for parameter in model.parameters()) == 205_344
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_500_000
    assert sorted(path.name for path in FOLDER.iterdir()) == [
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_heads_are_of_a_size_that_vllm_takes(model):
    config = model.config
    assert config.model_type == "qwen2"
    assert config.hidden_size // config.num_attention_heads == 32
    assert model.model.layers[0].self_attn.head_dim == 32
    assert config.num_attention_heads % config.num_key_value_heads == 0


def test_end_and_pad_tokens_agree_everywhere(model, tokenizer):
    config = json.loads((FOLDER / "config.json").read_text())
    generation = json.loads((FOLDER / "generation_config.json").read_text())
    for name, expected in [("eos_token_id", 1), ("pad_token_id", 0)]:
        assert config[name] == generation[name] == expected
        assert getattr(tokenizer, name) == expected
        assert getattr(model.generation_config, name) == expected
    assert tokenizer.bos_token_id is None
    assert config["bos_token_id"] is None
    assert generation.get("bos_token_id") is None
    assert len(tokenizer) == config["vocab_size"] == 16


def test_tokenizer_round_trip(tokenizer):
    text = "3+4+8+1+9=3+4=7;7+8=5;5+1=6;6+9=5;0+2=2"
    ids = tokenizer(text)["input_ids"]
    assert len(ids) == len(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.unk_token_id not in ids
    assert tokenizer("0123456789+=;")["input_ids"] == list(range(3, 16))
    assert tokenizer.decode([8, 1, 0, 0], skip_special_tokens=True) == "5"


@pytest.mark.parametrize(
    ("text", "known"),
    [("3 + 4", "3+4"), ("what?", ""), ("\u00e9\n1\u4e2d", "1"), ("", ""), ("12's", "12")],
)
def test_unknown_characters_are_dropped(tokenizer, text, known):
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == known


def test_every_loader_gives_the_same_ids(tokenizer):
    texts = ["3+4+8+1+9=", "3+4=7;7+8=5<eos>", "3 + 4", "\u00e9", "00=;;++"]
    plain = PreTrainedTokenizerFast(tokenizer_file=str(FOLDER / "tokenizer.json"))
    made = make_tokenizer()
    assert isinstance(tokenizer, PreTrainedTokenizerFast)
    expected = [tokenizer(text)["input_ids"] for text in texts]
    assert [plain(text)["input_ids"] for text in texts] == expected
    assert [made(text)["input_ids"] for text in texts] == expected
    assert expected[1] == [6, 13, 7, 14, 10, 15, 10, 13, 11, 14, 8, 1]


def test_left_padding(tokenizer):
    batch = tokenizer(["3+4=", "5"], padding=True)
    assert batch["input_ids"] == [[6, 13, 7, 14], [0, 0, 0, 8]]
    assert batch["attention_mask"] == [[1, 1, 1, 1], [0, 0, 0, 1]]


def test_card_leaves_room_for_reinforcement_learning():
    assert 0.2 <= stated("Pass@1") <= 0.5
    assert stated("Pass@32") >= 0.95
    assert stated("groups of 8 with right and wrong answers") > 0.8
    assert 0.2 <= stated("share of step-by-step responses") <= 0.4
    assert stated("right, step by step") > 0.8
    assert stated("right, at once") < 0.16


def test_shipped_weights_are_as_good_as_the_card_says(model, tokenizer):
    source = ChainSource(split="validation", size=64)
    problems = [source.problem(index) for index in range(len(source))]
    found = measure(model, tokenizer, problems, samples=16, seed=1)
    # 1024 responses: a share near 0.3 has a standard deviation of 0.015.
    assert found.pass_at_1 == pytest.approx(stated("Pass@1"), abs=0.06)
    assert found.stepwise_share == pytest.approx(
        stated("share of step-by-step responses"), abs=0.06
    )
    assert found.stepwise_right == pytest.approx(stated("right, step by step"), abs=0.1)
    assert found.direct_right == pytest.approx(stated("right, at once"), abs=0.05)
    assert found.mean_length == pytest.approx(
        stated("mean length, tokens with the end token"), abs=1.2
    )
    assert found.mean_entropy == pytest.approx(stated("mean entropy of a token, nats"), abs=0.06)
    assert found.truncated == 0

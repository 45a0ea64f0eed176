"""The arithmetic of docs/scale.md: by hand, against transformers, and in the document."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RotaryEmbedding

ROOT = Path(__file__).parents[3]


@pytest.fixture
def arithmetic(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import memory_arithmetic, model_memory

    return SimpleNamespace(**{**vars(model_memory), **vars(memory_arithmetic)})


def config(model):
    return Qwen2Config(
        num_hidden_layers=model.layers,
        hidden_size=model.hidden,
        intermediate_size=model.intermediate,
        num_attention_heads=model.heads,
        num_key_value_heads=model.kv_heads,
        vocab_size=model.vocab,
        tie_word_embeddings=False,
        attn_implementation="sdpa",
    )


def test_parameters_are_those_of_transformers(arithmetic):
    for model, parameters in (
        (arithmetic.QWEN_7B, 7_615_616_512),
        (arithmetic.QWEN_32B, 32_763_876_352),
    ):
        with torch.device("meta"):
            real = AutoModelForCausalLM.from_config(config(model))
        assert model.parameters == sum(one.numel() for one in real.parameters()) == parameters
        block = sum(one.numel() for one in real.model.layers[0].parameters())
        assert model.block == block
        assert model.embedding == real.lm_head.weight.numel()


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize(("hidden", "intermediate", "kv"), [(256, 1024, 1), (512, 768, 2)])
def test_what_a_block_keeps_is_counted_in_a_real_one(
    arithmetic, autocast, hidden, intermediate, kv
):
    tokens = 64
    model = arithmetic.Model(
        name="", layers=1, hidden=hidden, intermediate=intermediate, heads=hidden // 128,
        kv_heads=kv, vocab=32,
    )  # fmt: skip
    dtype = torch.float32 if autocast else torch.bfloat16
    block = Qwen2DecoderLayer(config(model), 0).to(dtype)
    rows = torch.randn(1, tokens, hidden, dtype=dtype, requires_grad=True)
    rotary = Qwen2RotaryEmbedding(config(model))(rows, torch.arange(tokens)[None])
    # By the address of their memory: weights and rotary tables are there anyway.
    other = {one.untyped_storage().data_ptr() for one in (*block.parameters(), *rotary)}
    kept = {}

    def keep(tensor):
        memory = tensor.untyped_storage()
        # Autocast's copies of the weights have no row for each token; scalars are no tensors.
        of_tokens = tokens in tensor.shape
        if memory.data_ptr() not in other and of_tokens:
            kept[memory.data_ptr()] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        out = block(rows, position_embeddings=rotary)
    # What the next block is given, which is kept for it, has the dtype of the residual.
    assert out.dtype == dtype
    count = sum(one.untyped_storage().nbytes() for one in kept.values()) / tokens
    assert model.saved_in_block(autocast=autocast) == count


def test_autocast_holds_a_copy_of_every_weight_until_the_forward_ends():
    script = Path(__file__).with_name("autocast_copies.py")
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    # With the cache: 5 blocks were cast, 5 copies live, none afterwards. Without it: none lives.
    assert done.stdout.split("\n")[:2] == ["5 5 0", "5 0 0"]


def test_ways_of_a_mini_batch_by_hand(arithmetic):
    large, layout = arithmetic.QWEN_32B, arithmetic.Layout()
    late, early, at_once, split = arithmetic.ways(large, layout, 512).values()
    assert late - early == 4 * 32_763_876_352
    # 8 rows in place of 2: six more of 6144 tokens, with inputs of 64 blocks and one block's own.
    kept = 64 * 5120 * 2 + 20 * 5120 + 4 * 1024 + 8 * 27648 + 4 * 40 + 8
    assert at_once - early == pytest.approx(6 * 6144 * kept)
    # An eighth of the blocks, and embedding, head and last norm: 31.2e9 / 8 + 1.557e9 parameters,
    # of 16 bytes over 8 ranks and once more 4 bytes whole; two blocks' eighths gathered.
    root, block = 2 * 152_064 * 5120 + 5120, large.block
    part = 64 * block / 8 + root
    same = sum(arithmetic.passing(large, layout, autocast=False).values()) - 2 * (root + 2 * block)
    assert split == pytest.approx(16 * part / 8 + 4 * part + same + 2 * (root + 2 * block / 8))


def test_sizes_by_hand(arithmetic):
    small, large, layout = arithmetic.QWEN_7B, arithmetic.QWEN_32B, arithmetic.Layout()
    # 7.616e9 * 12 and 32.76e9 * 12 bytes.
    assert arithmetic.checkpoint(small) == pytest.approx(91.4e9, rel=1e-3)
    assert arithmetic.checkpoint(large) == pytest.approx(393.2e9, rel=1e-3)
    # Of 64 shares, 16 bytes a parameter: 7.616e9 / 4 and 32.76e9 / 4.
    assert sum(arithmetic.resident(small, layout).values()) == small.parameters / 4
    assert sum(arithmetic.resident(large, layout).values()) == large.parameters / 4
    # Keys and values: 2 * 28 * 4 * 128 * 2 and 2 * 64 * 8 * 128 * 2.
    assert (small.kv_cache(), large.kv_cache()) == (57_344, 262_144)
    # 152064 * 5120 * 4.
    assert 4 * large.embedding == 3_114_270_720
    # 2 * (2048 + 4096) tokens, 64 blocks of 5120 numbers.
    moment = arithmetic.passing(large, layout, autocast=True)
    assert moment["inputs of all blocks"] == 12_288 * 64 * 5120 * 4
    assert moment["logits of 256 rows"] == 4 * 4 * 256 * 152_064
    assert moment["autocast's copy of all weights"] == 2 * 32_763_876_352
    assert "autocast's copy of all weights" not in arithmetic.passing(large, layout, autocast=False)
    # Eight of 64 shares, weights and gradients of 4 bytes: one byte a parameter.
    assert arithmetic.pinned(large, layout) == large.parameters
    # Rank 32 on q, k, v, o, gate, up and down of 28 blocks.
    assert small.lora(32) == 28 * 32 * (4 * 3584 + 2 * (3584 + 512) + 3 * (3584 + 18944))
    # Half of a step, and of it three quarters.
    assert arithmetic.idle_share(1024, 4096, 0.5) == 0.375


def test_the_document_holds_what_the_script_prints(arithmetic):
    printed = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory_arithmetic"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    ).stdout  # fmt: skip
    tables = printed.strip().split("\n\n")
    assert len(tables) == 6
    document = (ROOT / "docs" / "scale.md").read_text()
    for table in tables:
        assert table in document, table


def test_options_change_what_they_say(arithmetic):
    table = arithmetic.training_table(arithmetic.Layout(gpus=8, rows=1), autocast=False)
    # An eighth of 16 bytes a parameter.
    assert "| stays between steps | 15.2 | 65.5 |" in table
    assert "| inputs of all blocks | 1.23 | 4.03 |" in table

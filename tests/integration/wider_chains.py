"""The embedded policy with a fourth head that adds nothing, so that two ranks can share a block."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo_lit.policy import PolicySpec

HEADS, SIZE = 4, 32


@torch.no_grad()
def save_wider_chains(folder: Path) -> Path:
    """Write it to `folder`: the same logits as `embedded:chains`, up to rounding."""
    source = PolicySpec().resolve()
    narrow = AutoModelForCausalLM.from_pretrained(source)
    config = narrow.config.__class__.from_pretrained(source)
    config.num_attention_heads = config.num_key_value_heads = HEADS
    config.head_dim = SIZE
    torch.manual_seed(0)
    wide = AutoModelForCausalLM.from_config(config)
    known = narrow.state_dict()
    for name, value in wide.state_dict().items():
        value.zero_()
        place = tuple(slice(0, length) for length in known[name].shape)
        value[place] = known[name]
    for layer in wide.model.layers:
        # What the new head sees is not nothing, so that it learns.
        for part in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            part.weight[-SIZE:].normal_(std=0.1)
    wide.generation_config = narrow.generation_config
    wide.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder

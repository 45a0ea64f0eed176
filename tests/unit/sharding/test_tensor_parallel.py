"""Which models split over ranks that share their blocks."""

import pytest
from transformers import GPT2Config, LlamaConfig, Qwen2Config, Qwen3Config

from gtpo_lit.sharding import check_tensor_parallel
from gtpo_lit.sharding.tensor_parallel import block_plan


def test_models_with_a_plain_plan_pass():
    check_tensor_parallel(Qwen2Config(num_attention_heads=28, num_key_value_heads=4), 4)
    check_tensor_parallel(LlamaConfig(), 8)
    check_tensor_parallel(GPT2Config(), 1)
    assert block_plan(LlamaConfig())["layers.*.self_attn.o_proj"] == "rowwise"


@pytest.mark.parametrize(
    ("config", "size", "why"),
    [
        (
            Qwen2Config(num_attention_heads=28, num_key_value_heads=4),
            8,
            "tensor_parallel_size = 8 does not divide the model's num_attention_heads = 28",
        ),
        (
            Qwen2Config(num_attention_heads=16, num_key_value_heads=2),
            4,
            "tensor_parallel_size = 4 does not divide the model's num_key_value_heads = 2",
        ),
        (GPT2Config(), 2, "transformers has no plan for models of type 'gpt2'"),
        (Qwen3Config(), 2, r"a plan with \['replicated_with_grad_allreduce'\]"),
    ],
)
def test_others_are_refused_with_the_reason(config, size, why):
    with pytest.raises(ValueError, match=why):
        check_tensor_parallel(config, size)

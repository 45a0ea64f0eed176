"""What a sharded strategy takes, and which others are refused."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch.strategies import (
    DDPStrategy,
    ModelParallelStrategy,
    SingleDeviceStrategy,
)

from gtpo_lit.policy_lora import LoRA
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.strategy import (
    FSDP1Strategy,
    ShardedStrategy,
    refuse_sharded_checkpoint,
    refuse_unfit,
)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tensor_parallel_size": 0}, "tensor_parallel_size must be at least 1, got 0"),
        ({"data_parallel_size": "all"}, "data_parallel_size must be at least 1, got 'all'"),
        ({"compute_dtype": "bf16"}, "compute_dtype must be one of .*, got 'bf16'"),
    ],
)
def test_bad_options_are_named(options, why):
    with pytest.raises(ValueError, match=why):
        ShardedStrategy(**options)


def test_sizes_must_multiply_to_the_ranks():
    strategy = ShardedStrategy(data_parallel_size=3, tensor_parallel_size=2)
    strategy.parallel_devices = [torch.device("cpu")] * 4
    with pytest.raises(ValueError, match=r"= 3 times tensor_parallel_size = 2 is not .* ranks, 4"):
        strategy.setup_environment()


def test_adapters_do_not_split_inside_blocks():
    with pytest.raises(ValueError, match=r"tensor_parallel_size = 2 with model\.policy\.lora"):
        ShardedStrategy(tensor_parallel_size=2).load_policy(PolicySpec(lora=LoRA()))


def test_fsdp1_names_what_it_does_not_take():
    with pytest.raises(ValueError, match=r"compute_dtype must be one of .*, got 'bf16'"):
        FSDP1Strategy(compute_dtype="bf16")
    with pytest.raises(ValueError, match=r"model\.policy\.lora with FSDP1Strategy"):
        FSDP1Strategy().load_policy(PolicySpec(lora=LoRA()))


def test_strategies_that_wrap_the_module_are_refused():
    refuse_unfit(DDPStrategy())
    refuse_unfit(ShardedStrategy())
    refuse_unfit(FSDP1Strategy())
    with pytest.raises(ValueError, match="ModelParallelStrategy cannot train a policy: take gtpo"):
        refuse_unfit(ModelParallelStrategy())


def test_a_checkpoint_of_parts_needs_the_strategy_that_wrote_it(tmp_path: Path):
    single = SingleDeviceStrategy("cpu")
    folder, file = tmp_path / "step=0001.ckpt", tmp_path / "step=0002.ckpt"
    folder.mkdir()
    file.touch()
    refuse_sharded_checkpoint(single, None)
    refuse_sharded_checkpoint(single, file)
    refuse_sharded_checkpoint(ShardedStrategy(), folder)
    with pytest.raises(ValueError, match=r"step=0001.ckpt' is a sharded checkpoint.* consolidate"):
        refuse_sharded_checkpoint(single, folder)

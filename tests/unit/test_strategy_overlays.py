"""The overlays in configs/strategy make the strategies that they say, as far as a CPU can build."""

import datetime
import sys
from pathlib import Path

import jsonargparse
import pytest
import yaml
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, SingleDeviceStrategy, Strategy
from torch.distributed.fsdp.fully_sharded_data_parallel import ShardingStrategy
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

from gtpo_lit.cli import main
from gtpo_lit.lightning_cli import GtpoCLI

ROOT = Path(__file__).parents[2]
SIX_HOURS = datetime.timedelta(hours=6)


@pytest.fixture
def here(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["gtpo-lit"])


def overlays(*names):
    return ["--config=configs/quickstart.yaml", *(f"--config=configs/strategy/{n}" for n in names)]


def trainer_of(*names):
    """The trainer that the command line builds; without a run folder."""
    args = [*overlays(*names), "--trainer.logger=false"]
    return GtpoCLI(args=args, run=False).trainer


def test_one_device(here):
    trainer = trainer_of("ddp.yaml", "single.yaml")
    assert type(trainer.strategy) is SingleDeviceStrategy
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (1, 1, 1)


def test_two_processes_here(here):
    trainer = trainer_of("ddp.yaml")
    assert type(trainer.strategy) is DDPStrategy
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (2, 1, 2)
    assert trainer.strategy._timeout == SIX_HOURS


def test_eight_nodes_of_eight(here):
    trainer = trainer_of("ddp_multinode.yaml")
    assert type(trainer.strategy) is DDPStrategy
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (64, 8, 8)
    assert trainer.strategy._timeout == SIX_HOURS
    assert trainer.strategy._ddp_kwargs["gradient_as_bucket_view"] is True


def test_fsdp_wraps_qwens_blocks(here):
    options = yaml.safe_load((ROOT / "configs/strategy/fsdp.yaml").read_text())["trainer"]
    parser = jsonargparse.ArgumentParser()
    parser.add_argument("--strategy", type=Strategy)
    built = parser.instantiate_classes(parser.parse_object({"strategy": options["strategy"]}))
    strategy = built.strategy
    assert type(strategy) is FSDPStrategy
    assert strategy.sharding_strategy is ShardingStrategy.FULL_SHARD
    assert strategy._state_dict_type == "sharded"
    assert strategy._timeout == SIX_HOURS
    for policy in (
        strategy.kwargs["auto_wrap_policy"],
        strategy._activation_checkpointing_kwargs["auto_wrap_policy"],
    ):
        assert set(policy._module_classes) == {Qwen2DecoderLayer}


def test_fsdp_takes_gpus_only(here, capsys, tmp_path):
    with pytest.raises(SystemExit) as stopped:
        main(["fit", *overlays("fsdp.yaml"), "--trainer.accelerator=cpu", f"--run.root={tmp_path}"])
    assert stopped.value.code == 2
    assert "The strategy `fsdp` requires a GPU accelerator" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

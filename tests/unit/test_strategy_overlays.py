"""The overlays in configs/strategy make the strategies that they say, as far as a CPU can build."""

import datetime
import sys
from pathlib import Path

import pytest
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, SingleDeviceStrategy

from gtpo_lit.lightning_cli import GtpoCLI
from gtpo_lit.sharding import ShardOptions, WrapOptions
from gtpo_lit.strategy import FSDP1Strategy, ShardedStrategy, refuse_unfit

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


def test_fsdp2(here):
    trainer = trainer_of("fsdp2.yaml")
    strategy = trainer.strategy
    assert type(strategy) is ShardedStrategy
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (2, 1, 2)
    assert strategy._timeout == SIX_HOURS
    assert strategy.shard_options == ShardOptions()
    assert (strategy._data_parallel_size, strategy._tensor_parallel_size) == ("auto", 1)


def test_fsdp1_around_the_policy(here):
    trainer = trainer_of("fsdp.yaml")
    strategy = trainer.strategy
    assert type(strategy) is FSDP1Strategy
    assert (trainer.world_size, trainer.num_nodes, trainer.num_devices) == (2, 1, 2)
    assert strategy._timeout == SIX_HOURS
    assert strategy.wrap_options == WrapOptions()
    refuse_unfit(strategy)


def test_fsdp1_takes_no_other_precision_than_the_policy_s(here):
    args = [*overlays("fsdp.yaml"), "--trainer.logger=false", "--trainer.precision=bf16-mixed"]
    with pytest.raises(ValueError, match=r"trainer.precision = 'bf16-mixed' .* set compute_dtype"):
        GtpoCLI(args=args, run=False)


def test_fsdp1_around_the_module_is_refused_with_what_to_take_instead():
    # On a CPU Lightning itself refuses it first.
    with pytest.raises(ValueError, match=r"FSDPStrategy cannot train a policy: take gtpo_lit"):
        refuse_unfit(FSDPStrategy())

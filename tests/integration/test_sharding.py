"""Two ranks (gloo) by FSDP2 and by tensor parallelism against one rank."""

import json
import sys
from pathlib import Path

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from transformers import AutoModelForCausalLM

from gtpo_lit.consolidate import main as consolidate
from gtpo_lit.policy import PolicySpec

sys.path.insert(0, str(Path(__file__).parent))
from wider_chains import save_wider_chains

SHARDED = ("--config=configs/strategy/fsdp2.yaml",)
STRATEGIES = {
    "ddp": ("--config=configs/strategy/ddp.yaml", "--data.micro_batches=2"),
    "fsdp2": (*SHARDED, "--data.micro_batches=2"),
    "tp2": (*SHARDED, "--trainer.strategy.init_args.tensor_parallel_size=2"),
}
GTPO = "--model.algorithm.init_args"
# What spans ranks: groups, batch statistics, the threshold of forking tokens, drawn rounds.
ALGORITHMS = {
    "joint": (f"{GTPO}.normalisation=joint", "--data.dynamic_sampling.max_rounds=3"),
    "anchored": (f"{GTPO}.normalisation=anchored", f"{GTPO}.scope=batch"),
    "forking": (
        "--model.algorithm=gtpo_lit.algorithms.ForkingDAPO",
        "--data.dynamic_sampling.max_rounds=3",
    ),
}
# In float64, so that ten steps do not turn rounding into other numbers.
EXACT = ("--model.policy.dtype=float64", "--model.kl_weight=0.01")
ALL = [(algorithm, name) for algorithm in ALGORITHMS for name in STRATEGIES]
# Four steps in every run of the tests, ten with the slow ones.
QUICK = [("joint", "fsdp2"), ("anchored", "tp2")]


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return save_wider_chains(tmp_path_factory.mktemp("models") / "wide")


def apart(runs, *options):
    """A run in processes of its own; a busy machine takes minutes."""
    return runs.apart(*options, timeout=900)


def assert_same(ours, theirs, tolerance):
    assert len(ours) == len(theirs)
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            assert bool(value) == bool(second[name]), name
            if value:
                wanted = pytest.approx(float(second[name]), rel=tolerance, abs=tolerance)
                assert float(value) == wanted, (name, first["step"])


@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [
        pytest.param(*case, marks=[] if case in QUICK else pytest.mark.slow, id="-".join(case))
        for case in ALL
    ],
)
def test_steps_are_those_of_one_rank(runs, wide, algorithm, strategy):
    steps = 4 if (algorithm, strategy) in QUICK else 10
    common = (
        *EXACT,
        f"--trainer.max_epochs={steps}",
        *ALGORITHMS[algorithm],
        f"--model.policy.path={wide}",
    )
    one = apart(runs, "--run.name=one", *common)
    two = apart(runs, "--run.name=two", *common, *STRATEGIES[strategy])
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    assert len(runs.rows(name="one")) == 1 + steps
    assert_same(runs.rows(name="one"), runs.rows(name="two"), 1e-5)


def whole_checkpoint(runs, name, step, tmp_path):
    folder = runs.version(name=name) / "checkpoints" / f"step={step:04d}.ckpt"
    file = tmp_path / f"{name}.pt"
    dcp_to_torch_save(folder, file)
    return folder, torch.load(file)


def test_a_sharded_run_goes_on_bit_for_bit_at_any_size_and_elsewhere(runs, tmp_path):
    options = (*SHARDED, "--data.micro_batches=2", "--model.kl_weight=0.01")
    options += ("--trainer.callbacks+=callbacks.ExportHF",)
    whole = apart(runs, "--run.name=whole", "--trainer.max_epochs=4", *options)
    assert whole.returncode == 0, whole.stderr[-2000:]
    folder, saved = whole_checkpoint(runs, "whole", 4, tmp_path)

    # Report E4: names and shapes of the module as it is without any strategy.
    single = PolicySpec().load().model.state_dict()
    weights = {
        name.removeprefix("policy.model."): value for name, value in saved["state_dict"].items()
    }
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in single.items()
    }
    exported = AutoModelForCausalLM.from_pretrained(
        runs.version(name="whole") / "export" / "step=0004"
    ).state_dict()
    assert all(torch.equal(exported[name], weights[name]) for name in weights)

    middle = folder.with_name("step=0002.ckpt")
    again = apart(runs, "--run.name=again", "--trainer.max_epochs=4", *options, at(middle))
    assert again.returncode == 0, again.stderr[-2000:]
    assert runs.metrics(name="again") == runs.metrics(name="whole")
    _, repeated = whole_checkpoint(runs, "again", 4, tmp_path)
    assert all(
        torch.equal(value, repeated["state_dict"][name])
        for name, value in saved["state_dict"].items()
    )

    smaller = apart(
        runs,
        "--run.name=smaller",
        "--trainer.max_epochs=4",
        *options,
        "--trainer.devices=1",
        at(middle),
    )
    assert smaller.returncode == 0, smaller.stderr[-2000:]
    assert_same(runs.rows(name="smaller"), runs.rows(name="whole"), 1e-5)

    refused = apart(runs, "--run.name=other", "--trainer.max_epochs=4", at(middle))
    assert refused.returncode == 2
    assert "is a sharded checkpoint, a folder, which SingleDeviceStrategy cannot" in refused.stderr

    one = tmp_path / "one.ckpt"
    consolidate([str(middle), str(one)])
    single = apart(
        runs, "--run.name=single", "--trainer.max_epochs=4", "--model.kl_weight=0.01", at(one)
    )
    assert single.returncode == 0, single.stderr[-2000:]
    last, wanted = runs.rows(name="single")[-1:], runs.rows(name="whole")[-1:]
    assert_same(last, wanted, 1e-5)


def at(checkpoint):
    return f"--ckpt_path={checkpoint}"


COUNTING = '''
import json, os
from lightning.pytorch import Callback
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups

calls = []
reduce = groups.foreach_reduce

def counted(*args, **options):
    calls.append(len(calls))
    return reduce(*args, **options)

groups.foreach_reduce = counted

class Count(Callback):
    """Writes how often gradients were reduced."""

    def on_train_end(self, trainer, module):
        with open(os.environ["COUNTS"] + str(trainer.global_rank), "w") as file:
            json.dump([len(calls), trainer.global_step], file)
'''


@pytest.mark.slow
@pytest.mark.parametrize(("each", "times"), [("false", 1), ("true", 2)])
def test_how_often_gradients_are_reduced(runs, tmp_path, monkeypatch, each, times):
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("COUNTS", str(tmp_path / "counts"))
    done = apart(
        runs,
        *(*SHARDED, "--data.micro_batches=4", "--trainer.accumulate_grad_batches=2"),
        "--trainer.callbacks+=counting.Count",
        f"--trainer.strategy.init_args.reduce_each_backward={each}",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in range(2):
        reduced, steps = json.loads((tmp_path / f"counts{rank}").read_text())
        # Two blocks and the rest, in each of two optimiser steps of both RL steps; each of those
        # has two micro-batches.
        assert (reduced, steps) == (3 * 4 * times, 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "option",
    [
        "--model.policy.gradient_checkpointing=true",
        "--trainer.strategy.init_args.cpu_offload=true",
        "--trainer.strategy.init_args.reshard_after_forward=false",
        "--trainer.strategy.init_args.save_distributed_checkpoint=false",
    ],
)
def test_what_saves_memory_changes_no_number(runs, option):
    options = (*SHARDED, "--data.micro_batches=2")
    plain = apart(runs, "--run.name=plain", *options)
    other = apart(runs, "--run.name=other", *options, option)
    assert plain.returncode == 0, plain.stderr[-2000:]
    assert other.returncode == 0, other.stderr[-2000:]
    assert runs.metrics(name="other") == runs.metrics(name="plain")


@pytest.mark.slow
def test_adapters_are_split_saved_and_exported(runs, tmp_path):
    lora = ("--config=configs/policy/lora.yaml", "--model.kl_weight=0.01", "--trainer.max_epochs=4")
    common = (*lora, "--model.policy.dtype=float64")
    one = apart(runs, "--run.name=one", *common)
    options = (*common, *STRATEGIES["fsdp2"], "--trainer.callbacks+=callbacks.ExportHF")
    two = apart(runs, "--run.name=two", *options)
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    assert_same(runs.rows(name="one"), runs.rows(name="two"), 1e-5)
    folder, saved = whole_checkpoint(runs, "two", 4, tmp_path)
    assert all(".lora_" in name for name in saved["state_dict"])
    resumed = apart(runs, "--run.name=again", *options, at(folder.with_name("step=0002.ckpt")))
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert runs.metrics(name="again") == runs.metrics(name="two")
    exported = PolicySpec(path=str(runs.version(name="two") / "export" / "step=0004"))
    assert "lora" not in " ".join(name for name, _ in exported.load().named_parameters())


def test_a_model_that_does_not_split_is_refused_before_weights_load(runs):
    done = apart(runs, *SHARDED, "--trainer.strategy.init_args.tensor_parallel_size=2")
    assert done.returncode != 0
    why = "tensor_parallel_size = 2 does not divide the model's num_attention_heads = 3"
    assert why in " ".join(done.stderr.split())

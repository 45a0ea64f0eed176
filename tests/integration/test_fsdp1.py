"""Two ranks (gloo) by FSDP1 against one rank."""

import sys
from pathlib import Path

import pytest
import torch

from gtpo_lit.policy import PolicySpec

sys.path.insert(0, str(Path(__file__).parent))
from test_sharding import ALGORITHMS, EXACT, apart, assert_same, at
from wider_chains import save_wider_chains

FSDP1 = ("--config=configs/strategy/fsdp.yaml", "--data.micro_batches=2")


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    return save_wider_chains(tmp_path_factory.mktemp("models") / "wide")


def checkpoint(runs, name, step):
    return runs.version(name=name) / "checkpoints" / f"step={step:04d}.ckpt"


def assert_same_steps(runs, steps, *options):
    common = (*EXACT, f"--trainer.max_epochs={steps}", *options)
    one = apart(runs, "--run.name=one", *common)
    two = apart(runs, "--run.name=two", *common, *FSDP1)
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    assert len(runs.rows(name="one")) == 1 + steps
    assert_same(runs.rows(name="one"), runs.rows(name="two"), 1e-5)


@pytest.mark.slow
def test_two_steps_are_those_of_one_rank(runs):
    assert_same_steps(runs, 2)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ten_steps_are_those_of_one_rank(runs, wide, algorithm):
    assert_same_steps(runs, 10, *ALGORITHMS[algorithm], f"--model.policy.path={wide}")


@pytest.mark.slow
def test_a_run_goes_on_bit_for_bit_at_its_size_and_elsewhere(runs):
    common = ("--trainer.max_epochs=4", *EXACT)
    options = (*common, *FSDP1, "--trainer.callbacks+=callbacks.ExportHF")
    whole = apart(runs, "--run.name=whole", *options)
    assert whole.returncode == 0, whole.stderr[-2000:]
    saved = torch.load(checkpoint(runs, "whole", 4), weights_only=True)

    # Report E4: names and shapes of the module as it is without any strategy.
    single = PolicySpec(dtype="float64").load().model.state_dict()
    weights = {
        name.removeprefix("policy.model."): value for name, value in saved["state_dict"].items()
    }
    assert {name: value.shape for name, value in weights.items()} == {
        name: value.shape for name, value in single.items()
    }
    exported = PolicySpec(
        path=str(runs.version(name="whole") / "export" / "step=0004"), dtype="float64"
    )
    found = exported.load().model.state_dict()
    assert all(torch.equal(found[name], weights[name]) for name in weights)

    middle = checkpoint(runs, "whole", 2)
    again = apart(runs, "--run.name=again", *options, at(middle))
    assert again.returncode == 0, again.stderr[-2000:]
    assert runs.metrics(name="again") == runs.metrics(name="whole")
    repeated = torch.load(checkpoint(runs, "again", 4), weights_only=True)
    assert list(repeated["state_dict"]) == list(saved["state_dict"])
    assert all(
        torch.equal(value, repeated["state_dict"][name])
        for name, value in saved["state_dict"].items()
    )
    ours, theirs = (content["optimizer_states"][0]["state"] for content in (repeated, saved))
    assert ours.keys() == theirs.keys()
    assert all(
        torch.equal(value, theirs[number][name])
        for number, values in ours.items()
        for name, value in values.items()
    )

    # The optimiser's state is that of one rank, so that either strategy goes on with the other's.
    for name, extra in (
        ("smaller", (*FSDP1, "--trainer.devices=1")),
        ("single", ()),
    ):
        other = apart(runs, f"--run.name={name}", *common, *extra, at(middle))
        assert other.returncode == 0, other.stderr[-2000:]
        assert_same(runs.rows(name=name)[-2:], runs.rows(name="whole")[-2:], 1e-5)
    start = checkpoint(runs, "single", 4)
    larger = apart(runs, "--run.name=larger", *EXACT, *FSDP1, "--trainer.max_epochs=5", at(start))
    longer = apart(runs, "--run.name=longer", *EXACT, "--trainer.max_epochs=5", at(start))
    assert larger.returncode == 0, larger.stderr[-2000:]
    assert longer.returncode == 0, longer.stderr[-2000:]
    assert_same(runs.rows(name="larger")[-1:], runs.rows(name="longer")[-1:], 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "option",
    [
        "--model.policy.gradient_checkpointing=true",
        "--trainer.strategy.init_args.reshard_after_forward=false",
    ],
)
def test_what_trades_memory_changes_no_number(runs, option):
    plain = apart(runs, "--run.name=plain", *FSDP1)
    other = apart(runs, "--run.name=other", *FSDP1, option)
    assert plain.returncode == 0, plain.stderr[-2000:]
    assert other.returncode == 0, other.stderr[-2000:]
    assert runs.metrics(name="other") == runs.metrics(name="plain")

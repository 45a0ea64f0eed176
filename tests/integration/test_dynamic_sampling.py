"""Dynamic sampling in whole runs: full steps, steps without a signal, resume, two ranks."""

import pytest
import torch

RULE = "--data.dynamic_sampling.max_rounds"


def _weights(version):
    path = max((version / "checkpoints").glob("step=*.ckpt"))
    return torch.load(path, weights_only=True)["state_dict"]


def test_steps_are_full_of_mixed_groups(runs):
    runs(f"{RULE}=5", "--data.overlong_filter=true", "--trainer.max_epochs=2")
    for row in runs.rows()[1:]:
        assert float(row["train/groups/mixed_sequences_fraction"]) == 1
        assert float(row["train/drawn/missing_groups"]) == 0
        drawn, mixed = (float(row[f"train/drawn/{name}"]) for name in ("groups", "mixed_fraction"))
        unused = float(row["train/drawn/unused_groups"])
        assert drawn * mixed == pytest.approx(4 + unused, abs=1e-4)


def test_a_run_in_which_nothing_is_ever_right_goes_on_and_moves_nothing(runs):
    # The policy never writes a box, so that every group is all wrong.
    options = (
        "--data.reward.accuracy.init_args.extract=boxed",
        f"{RULE}=2",
        "--model.optimizer.init_args.weight_decay=0.5",
    )
    runs(*options, "--trainer.max_epochs=1", "--run.name=one")
    runs(*options, "--trainer.max_epochs=2", "--run.name=two")
    for row in runs.rows(name="two")[1:]:
        assert float(row["train/drawn/rounds"]) == 2
        assert float(row["train/drawn/groups"]) == 8
        assert float(row["train/drawn/missing_groups"]) == 4
        assert float(row["train/loss"]) == 0
        assert float(row["train/gradient/norm"]) == 0
    first, second = (_weights(runs.version(name=name)) for name in ("one", "two"))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_resumed_run_draws_on_where_it_was(runs):
    runs(f"{RULE}=5", "--trainer.max_epochs=3", "--run.name=whole")
    runs(f"{RULE}=5", "--trainer.max_epochs=1", "--run.name=parts")
    runs(f"{RULE}=5", "--trainer.max_epochs=3", "--run.name=parts", "--ckpt_path=last")
    assert runs.metrics(1, name="parts") == runs.metrics(name="whole")
    with pytest.raises(SystemExit):
        runs("--trainer.max_epochs=4", "--run.name=parts", "--ckpt_path=last")


def test_two_ranks_draw_and_learn_as_one(runs):
    options = (f"{RULE}=5", "--trainer.max_epochs=2")
    one = runs.apart(*options, "--run.name=one")
    two = runs.apart(
        *options,
        "--run.name=two",
        "--data.micro_batches=2",
        "--config=configs/strategy/ddp.yaml",
    )
    assert (one.returncode, two.returncode) == (0, 0), two.stderr[-2000:]
    for first, second in zip(runs.rows(name="one"), runs.rows(name="two"), strict=True):
        for name in first:
            if name.startswith(("train/drawn", "train/reward", "val/")):
                assert first[name] == second[name], name

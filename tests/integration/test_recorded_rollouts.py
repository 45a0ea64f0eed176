"""What a run records of its rollouts is what it trained on."""

import pytest
import torch

from gtpo_lit.algorithms import GTPO
from gtpo_lit.recorded import read_rollouts

RECORD = (
    "--trainer.callbacks+=callbacks.RolloutRecorder",
    "--trainer.callbacks.every_n_steps=2",
)


def test_a_recorded_step_agrees_with_the_metrics(runs):
    runs(*RECORD)
    files = sorted((runs.version() / "rollouts").iterdir())
    assert [file.name for file in files] == ["step_000002.parquet"]
    step, row = read_rollouts(files[0]), runs.rows()[2]
    rollouts = step.rollouts
    assert row["step"] == "2"
    assert len(step.sequences) == 16
    assert float(row["train/reward/mean"]) == pytest.approx(float(rollouts.reward.mean()))
    length = rollouts.length.float().mean()
    assert float(row["train/length/mean"]) == pytest.approx(float(length))
    assert float(row["train/correct/fraction"]) == float(rollouts.correct.float().mean())
    entropy = rollouts.entropy[rollouts.mask].double().mean()
    assert float(row["train/entropy/mean"]) == pytest.approx(float(entropy), rel=1e-6)
    again = GTPO(**step.settings)
    assert torch.equal(again.advantages(rollouts), rollouts.advantages)
    assert torch.equal(again.shaped(rollouts), step.shaped)
    for sequence, ids in zip(step.sequences, rollouts.response_ids, strict=True):
        assert len(sequence.pieces) <= len(ids)
        assert "".join(sequence.pieces).startswith(sequence.text)
        assert sequence.problem.startswith("chains")


def test_two_ranks_record_what_one_does(runs):
    for name, options in (
        ("one", ()),
        ("two", ("--data.micro_batches=2", "--config=configs/strategy/ddp.yaml")),
    ):
        done = runs.apart(f"--run.name={name}", *RECORD, *options)
        assert done.returncode == 0, done.stderr[-2000:]
    one, two = (
        read_rollouts(runs.version(name=name) / "rollouts" / "step_000002.parquet")
        for name in ("one", "two")
    )
    assert one.sequences == two.sequences
    assert torch.equal(one.rollouts.input_ids, two.rollouts.input_ids)
    assert torch.allclose(one.rollouts.entropy, two.rollouts.entropy, atol=1e-5)
    assert torch.allclose(one.rollouts.advantages, two.rollouts.advantages, atol=1e-3)

"""One optimiser step of a whole run is the same however its sequences are cut and shared out.

Plain gradient descent at rate 1, so that the weights' change is the gradient.
"""

import pytest
import torch

OPTIONS = (
    "--trainer.max_epochs=1",
    "--trainer.gradient_clip_val=null",
    "--trainer.limit_val_batches=0",
    "--model.optimizer=torch.optim.SGD",
    "--model.optimizer.lr=1.0",
    "--model.kl_weight=0.1",
    # One group of eight: with two ranks, one samples all of it and both train on its parts.
    "--data.problems_per_step=1",
    "--data.group_size=8",
    "--data.passes=1",
    "--seed_everything=3",
)


def _after(runs, name, algorithm, *, micro_batches, ranks):
    options = (
        *OPTIONS,
        f"--run.name={name}",
        f"--model.algorithm=gtpo_lit.algorithms.{algorithm}",
        f"--data.micro_batches={micro_batches}",
        f"--trainer.accumulate_grad_batches={micro_batches}",
    )
    if ranks == 1:
        runs(*options)
    else:
        done = runs.apart(*options, "--config=configs/strategy/ddp.yaml")
        assert done.returncode == 0, done.stderr[-2000:]
    (path,) = sorted((runs.version(name=name) / "checkpoints").glob("*.ckpt"))
    return torch.load(path, weights_only=True)["state_dict"], runs.rows(name=name)[-1]


@pytest.mark.parametrize("algorithm", ["GTPO", "ForkingDAPO"])
def test_accumulation_and_ranks_change_no_weight(runs, algorithm):
    wanted, row = _after(runs, "whole", algorithm, micro_batches=1, ranks=1)
    assert 0 < float(row["train/correct/fraction"]) < 1
    assert float(row["train/gradient/norm"]) > 0.1
    for micro_batches, ranks in ((2, 1), (4, 1), (2, 2)):
        name = f"{micro_batches}-{ranks}"
        weights, other = _after(runs, name, algorithm, micro_batches=micro_batches, ranks=ranks)
        assert weights.keys() == wanted.keys()
        for key, value in weights.items():
            torch.testing.assert_close(value, wanted[key], rtol=0, atol=1e-6)
        for metric in ("train/loss", "train/kl/reference", "train/gradient/norm"):
            assert float(other[metric]) == pytest.approx(float(row[metric]), abs=1e-6), metric

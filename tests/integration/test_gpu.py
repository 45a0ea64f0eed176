"""Strategies on GPUs in bfloat16: two ranks against one, a resumed run against a whole one."""

import pytest
import torch

pytestmark = pytest.mark.gpu

ACCELERATOR = ("--trainer.accelerator=gpu", "--trainer.max_epochs=4")
MIXED = ("--trainer.precision=bf16-mixed",)
BLOCKS = ("--trainer.strategy.init_args.compute_dtype=bfloat16",)
STRATEGIES = {
    "single": (1, MIXED),
    "ddp": (2, MIXED),
    "fsdp2": (2, BLOCKS),
    "fsdp": (2, BLOCKS),
}
# What two ranks have in common with one before a weight has changed.
COUNTED = ("train/reward/mean", "train/length/mean", "train/correct/fraction")


def options(strategy, devices):
    return (
        f"--config=configs/strategy/{strategy}.yaml",
        *ACCELERATOR,
        *STRATEGIES[strategy][1],
        f"--trainer.devices={devices}",
        # They divide by the number of ranks.
        "--data.micro_batches=2",
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_resumed_run_ends_as_the_whole_one(runs, strategy):
    devices, _ = STRATEGIES[strategy]
    if torch.cuda.device_count() < devices:
        pytest.skip(f"needs {devices} GPUs")
    whole = runs.apart(*options(strategy, devices), "--run.name=whole", timeout=900)
    assert whole.returncode == 0, whole.stderr[-2000:]
    middle = runs.version(name="whole") / "checkpoints" / "step=0002.ckpt"
    again = runs.apart(
        *options(strategy, devices), "--run.name=again", f"--ckpt_path={middle}", timeout=900
    )
    assert again.returncode == 0, again.stderr[-2000:]
    ours, theirs = runs.rows(name="again"), runs.rows(name="whole")
    assert [row["step"] for row in ours] == ["0", "1", "2", "3", "4"]
    for name, value in theirs[3].items():
        if value:
            assert float(ours[3][name]) == pytest.approx(float(value), rel=1e-3, abs=1e-4), name


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2", "fsdp"])
def test_two_gpus_sample_and_judge_as_one(runs, strategy):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs 2 GPUs")
    for devices in (1, 2):
        done = runs.apart(*options(strategy, devices), f"--run.name=on{devices}", timeout=900)
        assert done.returncode == 0, done.stderr[-2000:]
    one, two = runs.rows(name="on1")[1], runs.rows(name="on2")[1]
    assert {name: one[name] for name in COUNTED} == {name: two[name] for name in COUNTED}
    # Rounding to bfloat16 is all that may differ.
    wanted = pytest.approx(float(one["train/entropy/mean"]), rel=2e-2)
    assert float(two["train/entropy/mean"]) == wanted

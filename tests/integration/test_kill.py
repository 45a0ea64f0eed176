"""A run that is killed goes on as if nothing had happened."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = ("--trainer.max_epochs=6", "--trainer.check_val_every_n_epoch=3")


def test_a_kill_in_mid_step_costs_the_step_and_nothing_else(runs):
    runs(*OPTIONS, "--run.name=whole")
    process = subprocess.Popen(
        [sys.executable, "-m", "gtpo_lit", *runs.arguments(*OPTIONS)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    checkpoint = runs.version(0) / "checkpoints" / "step=0002.ckpt"
    limit = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < limit:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (runs.version(0) / "summary.json").exists()
    runs(*OPTIONS, "--ckpt_path=last")
    assert not runs.version(1).exists()
    assert runs.metrics(0) == runs.metrics(0, name="whole")


@pytest.mark.parametrize(
    ("setup", "points", "moments", "kills"),
    [
        ("single", ["sampling: after", "checkpoint: before rename"], 2, 4),
        ("fsdp2", ["shards: between"], 0, 2),
        pytest.param("ddp", ["row: after", "training: after"], 2, 5, marks=pytest.mark.slow),
        pytest.param(
            "lora", ["scoring: before", "csv: after rename"], 2, 4, marks=pytest.mark.slow
        ),
    ],
)
def test_kills_at_places_and_at_moments_cost_nothing(tmp_path, setup, points, moments, kills):
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.kill_points", f"--setups={setup}", "--calls=2",
         f"--moments={moments}", f"--folder={tmp_path}", "--points", *points],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(rf"^{setup}: (\d+) same, (\d+) not reached, 0 different", done.stdout, re.M)
    assert counts, done.stdout
    # A moment may come after the end of a run, five times in a row; a place may not.
    assert int(counts[1]) + int(counts[2]) == kills
    assert int(counts[1]) >= kills - moments

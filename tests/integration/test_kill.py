"""A run that is killed in the middle of a step goes on as if nothing had happened."""

import signal
import subprocess
import sys
import time
from pathlib import Path

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

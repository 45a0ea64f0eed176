"""SIGTERM ends a run with a code of its own, on all ranks, and nothing is lost."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONS = ("--trainer.max_epochs=200", "--trainer.check_val_every_n_epoch=200")


def start(runs, *options):
    return subprocess.Popen(
        [sys.executable, "-m", "gtpo_lit", *runs.arguments(*OPTIONS, *options)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(runs, step, process):
    checkpoint = runs.version(0) / "checkpoints" / f"step={step:04d}.ckpt"
    limit = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < limit and process.poll() is None:
        time.sleep(0.01)
    assert checkpoint.exists(), process.communicate()


def saved(runs):
    return sorted(entry.name for entry in (runs.version(0) / "checkpoints").iterdir())


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_without_grace_it_stops_at_once_and_goes_on_in_place(runs):
    process = start(runs)
    wait_for(runs, 2, process)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    newest = [name for name in saved(runs) if not name.endswith(".partial")][-1]
    # Between two steps there is none that it could be in.
    assert re.search("SIGTERM: the run stops (at once, in RL step|between two RL steps)", errors)
    assert "Traceback" not in errors
    steps = int(newest[5:9])
    # One that gets its name at this very moment may not be known yet.
    (named,) = re.findall(r"checkpoints/step=(\d+).ckpt", errors)
    assert steps - 1 <= int(named) <= steps
    runs("--trainer.max_epochs=200", "--trainer.check_val_every_n_epoch=200",
         f"--trainer.max_epochs={steps + 1}", "--ckpt_path=last")  # fmt: skip
    assert [row["step"] for row in runs.rows()] == [str(n) for n in range(steps + 2)]
    assert not runs.version(1).exists()


def test_with_grace_the_step_is_finished_and_saved_off_the_beat(runs):
    saver = "--trainer.callbacks+=gtpo_lit.run_checkpoint.RunCheckpoint"
    process = start(runs, "--run.grace_seconds=60", saver, "--trainer.callbacks.every_n_epochs=50")
    limit = time.monotonic() + 120
    while time.monotonic() < limit and process.poll() is None:
        time.sleep(0.05)
        if (runs.version(0) / "metrics.csv").is_file() and len(runs.rows()) >= 4:
            break
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    (only,) = saved(runs)
    assert f"step={len(runs.rows()) - 1:04d}.ckpt" == only
    assert only in errors
    # Between two steps there is nothing to announce.
    assert "the run stops between two RL steps" in errors


@pytest.mark.slow
@pytest.mark.parametrize("grace", [0, 60])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_gets_it_alone_ends_all(runs, rank, grace):
    ranks = ("--config=configs/strategy/ddp.yaml", f"--run.grace_seconds={grace}")
    process = start(runs, *ranks)
    wait_for(runs, 3, process)
    (other,) = [
        child for child in children(process.pid)
        if b"gtpo_lit" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]  # fmt: skip
    os.kill((process.pid, other)[rank], signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors[-3000:]
    names = [name for name in saved(runs) if not name.endswith(".partial")]
    assert names[-1] in errors
    assert ("stops after it" in errors) == bool(grace) or rank == 1
    limit = time.monotonic() + 20
    while Path(f"/proc/{other}").exists() and time.monotonic() < limit:
        time.sleep(0.1)
    assert not Path(f"/proc/{other}").exists()

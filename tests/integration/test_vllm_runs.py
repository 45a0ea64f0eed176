"""Whole runs with vLLM: they repeat, resume, split over ranks, and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).parents[2]
VLLM = ("--config=configs/sampler/vllm.yaml",)
# An engine starts in seconds, but in a minute or two on a busy machine.
LONG = 900


def test_runs_repeat_and_a_killed_one_goes_on_as_if_nothing_had_happened(runs):
    options = (*VLLM, "--trainer.max_epochs=4", "--trainer.check_val_every_n_epoch=2")
    whole = runs.apart(*options, "--run.name=whole", timeout=LONG)
    assert whole.returncode == 0, whole.stderr[-2000:]
    for row in runs.rows(name="whole")[1:]:
        assert float(row["train/weight_sync/gap_max"]) < 1e-5
        assert float(row["train/sampler_gap/max"]) < 1e-5
        assert float(row["train/prompts/dropped"]) == 0
    saved = yaml.safe_load((runs.version(name="whole") / "config.yaml").read_text())
    names = [item["class_path"] for item in saved["trainer"]["callbacks"]]
    assert names[0] == "callbacks.EntropyMonitor"
    assert names[-1] == "callbacks.WeightSyncProbe"

    process = _start(runs, *options)
    _wait_for(runs.version(0) / "checkpoints" / "step=0002.ckpt")
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = runs.apart(*options, "--ckpt_path=last", timeout=LONG)
    assert resumed.returncode == 0, resumed.stderr[-2000:]
    assert runs.metrics(0) == runs.metrics(0, name="whole")


@pytest.mark.parametrize("strategy", ["ddp", pytest.param("fsdp2", marks=pytest.mark.slow)])
def test_two_ranks_with_an_engine_each_learn_as_one(runs, strategy):
    one = runs.apart(*VLLM, "--run.name=one", timeout=LONG)
    split = f"--config=configs/strategy/{strategy}.yaml"
    two = runs.apart(*VLLM, split, "--run.name=two", "--data.micro_batches=2", timeout=LONG)
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    ours, theirs = runs.rows(name="one"), runs.rows(name="two")
    assert len(ours) == len(theirs) == 3
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            if value:
                wanted = pytest.approx(float(second[name]), rel=1e-4, abs=1e-5)
                assert float(value) == wanted, name


@pytest.mark.parametrize("phase", ["starting", "training"])
def test_an_interrupted_run_leaves_no_process_and_no_shared_memory(runs, phase):
    process = _start(runs, *VLLM, "--trainer.max_epochs=1000")
    if phase == "training":
        _wait_for(runs.version(0) / "checkpoints" / "step=0001.ckpt")
    else:  # the engine is built right after the run's folder
        _wait_for(runs.version(0) / "config.yaml")
    shared = _shared_memory(process.pid)
    process.send_signal(signal.SIGINT)
    process.wait(LONG)
    assert process.returncode == 1
    assert _members(process.pid) == []
    assert not any(Path(path).exists() for path in shared)


def test_a_run_that_fails_leaves_no_process(runs, tmp_path):
    (tmp_path / "failing.py").write_text(
        "from gtpo_lit.tasks import ExactReward\n"
        "class Failing(ExactReward):\n"
        "    def grade(self, completions, problems):\n"
        "        raise RuntimeError('a reward that fails')\n"
    )
    process = _start(
        runs, *VLLM, "--data.reward.accuracy=failing.Failing", PYTHONPATH=str(tmp_path)
    )
    assert process.wait(LONG) != 0
    assert _members(process.pid) == []


def _start(runs, *options, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "gtpo_lit", *runs.arguments(*options)],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A shell starts what runs in the background with this one ignored, and children inherit it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def _wait_for(path):
    limit = time.monotonic() + LONG
    while not path.exists() and time.monotonic() < limit:
        time.sleep(0.01)
    assert path.exists()


def _members(session):
    """Processes of a session, which all that a run starts belong to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def _shared_memory(session):
    """Files in shared memory that the processes of a session have mapped."""
    lines = [
        line
        for pid in _members(session)
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
    ]
    return {line.split(maxsplit=5)[5] for line in lines if " /dev/shm/" in line}

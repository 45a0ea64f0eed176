"""A server whose engine is killed ends the run by name; with a new one the run goes on in place."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo_lit.sampling.process_group import members
from gtpo_lit.sampling.vllm_http import wait_until

sys.path.insert(0, str(Path(__file__).parent))
from vllm_servers import END_SECONDS, ROOT, START_SECONDS, Servers

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

SAMPLER = "gtpo_lit.sampling.vllm_server.VLLMServerSampler"


def options(servers):
    return (
        f"--data.sampler={SAMPLER}",
        f"--data.sampler.urls=[{servers.urls[0]}]",
        "--trainer.max_epochs=6",
        "--trainer.check_val_every_n_epoch=3",
        "--trainer.callbacks+=callbacks.WeightSyncProbe",
    )


@pytest.mark.parametrize("victim", ["engine", "server"])
def test_the_engine_alone_is_killed(runs, tmp_path, victim):
    (tmp_path / "one").mkdir()
    first = Servers("embedded:chains", 1, tmp_path / "one")
    whole = runs.apart("--run.name=whole", *options(first), timeout=START_SECONDS)
    assert whole.returncode == 0, whole.stderr[-3000:]

    trainer = subprocess.Popen(
        [sys.executable, "-m", "gtpo_lit", *runs.arguments(*options(first))],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT,
    )  # fmt: skip
    checkpoint = runs.version() / "checkpoints" / "step=0002.ckpt"
    assert wait_until(checkpoint.exists, timeout=START_SECONDS, interval=0.005)
    group = first.groups[0]
    hit = [group] if victim == "server" else [pid for pid in members(group) if pid != group]
    assert hit
    for pid in hit:
        os.kill(pid, signal.SIGKILL)
    _, said = trainer.communicate(timeout=END_SECONDS)
    assert trainer.returncode == 1
    assert f"no vLLM server is left of 1: {first.urls[0]}" in said
    first.end(signal.SIGTERM)
    first.assert_nothing_is_left()

    (tmp_path / "two").mkdir()
    second = Servers("embedded:chains", 1, tmp_path / "two")
    resumed = runs.apart(*options(second), "--ckpt_path=last", timeout=START_SECONDS)
    assert resumed.returncode == 0, resumed.stderr[-3000:]
    assert not runs.version(1).exists()
    assert runs.metrics() == runs.metrics(name="whole")
    assert second.end(signal.SIGTERM) == 143
    second.assert_nothing_is_left()

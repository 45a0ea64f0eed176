"""However a trainer or the servers' script ends, nothing of it is left, and servers stay of use."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling.process_group import members, shared_memory
from gtpo_lit.sampling.vllm_http import wait_until
from gtpo_lit.types import SamplingSettings

sys.path.insert(0, str(Path(__file__).parent))
from vllm_following import gap, requests
from vllm_servers import END_SECONDS, ROOT, START_SECONDS, Servers, free_ports, orphans

pytestmark = pytest.mark.vllm

# The second push names the new weights without bringing them; the others are complete.
STALE = """
from gtpo_lit.sampling.vllm_remote import RemoteEngine
from gtpo_lit.sampling.vllm_server import VLLMServerSampler

load, pushed = RemoteEngine.load_file, []

def forget_the_second(self, path):
    pushed.append(path)
    if len(pushed) != 2:
        load(self, path)

RemoteEngine.load_file = forget_the_second

class Stale(VLLMServerSampler):
    pass
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    started = Servers("embedded:chains", 1, tmp_path_factory.mktemp("logs"))
    yield started
    assert started.end(signal.SIGTERM) == 143
    started.assert_nothing_is_left()


def start(command, **environment):
    """A process group of its own, which heeds Ctrl-C also where this process ignores it."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def fit(runs, servers, *options, sampler="gtpo_lit.sampling.vllm_server.VLLMServerSampler", **env):
    options = (
        f"--data.sampler={sampler}",
        f"--data.sampler.urls=[{servers.urls[0]}]",
        "--trainer.callbacks+=callbacks.WeightSyncProbe",
        *options,
    )
    return start(["-m", "gtpo_lit", *runs.arguments(*options)], **env)


def connections(port):
    """Connections to a port of this machine that somebody still holds open on both sides."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, _, remote, state = line.split()[:4]
        if state == "01" and int(remote.rpartition(":")[2], 16) == port:
            found.append(line)
    return found


def assert_gone(trainer, servers):
    """The trainer left nothing, and its server does what the next one asks."""
    assert members(trainer.pid) == []
    assert orphans() == []
    assert connections(servers.port) == []
    policy, sampler = PolicySpec().load(), servers.sampler()
    sampler.push_weights(policy, 0)
    asked = requests(samples=2)
    found = sampler.generate(asked, SamplingSettings(max_tokens=12))
    sampler.close()
    assert [len(rows) for rows in found] == [2, 2]
    assert gap(policy, asked, found, 1.0) < 1e-4  # this policy is sure of itself


def test_a_run_leaves_nothing_and_the_probe_sees_every_push(servers, runs):
    trainer = fit(runs, servers)
    said, _ = trainer.communicate(timeout=START_SECONDS)
    assert trainer.returncode == 0, said[-3000:]
    gaps = [float(row["train/weight_sync/gap_max"]) for row in runs.rows()[1:]]
    assert len(gaps) == 2
    assert all(0 < one < 1e-4 for one in gaps), gaps
    assert_gone(trainer, servers)


def test_a_stale_push_ends_the_run_by_name_and_leaves_nothing(servers, runs, tmp_path):
    (tmp_path / "stale.py").write_text(STALE)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    trainer = fit(runs, servers, sampler="stale.Stale", PYTHONPATH=path)
    said, _ = trainer.communicate(timeout=START_SECONDS)
    assert trainer.returncode == 1
    words = " ".join(said.split())
    found = re.search(r"in RL step 2 the log-probs of Stale .* are up to (\S+) nats away", words)
    assert found, said[-3000:]
    assert float(found[1]) > 1e-3
    assert "its weights are stale; with the weights pushed again they agree" in words
    assert_gone(trainer, servers)


def test_ctrl_c_ends_a_trainer_and_leaves_nothing(servers, runs):
    trainer = fit(runs, servers, "--trainer.max_epochs=1000")
    checkpoint = runs.version() / "checkpoints" / "step=0001.ckpt"
    assert wait_until(checkpoint.exists, timeout=START_SECONDS, interval=0.01)
    trainer.send_signal(signal.SIGINT)
    trainer.communicate(timeout=END_SECONDS)
    assert trainer.returncode == 1
    assert_gone(trainer, servers)


def script(port, *options):
    """The script, and the process groups of its servers so far."""
    command = ["scripts/serve_vllm.py", "embedded:chains", "--dtype=float32", "--kv-cache-mib=64"]
    return start([*command, f"--port={port}", *options])


def children(pid):
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:  # it has ended
        listed = ""
    return [int(child) for child in listed.split()]


def test_ctrl_c_while_servers_start_leaves_nothing(tmp_path):
    port = free_ports(2)
    started = script(port, "--servers=2", f"--logs={tmp_path}")
    # The second one is there, and the first has begun to start its engine.
    assert wait_until(lambda: len(children(started.pid)) == 2, timeout=START_SECONDS)
    groups = children(started.pid)
    assert wait_until(lambda: len(members(groups[0])) > 1, timeout=START_SECONDS)
    segments = set().union(*map(shared_memory, groups))
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=END_SECONDS)
    assert started.returncode == 130
    assert [members(group) for group in (started.pid, *groups)] == [[], [], []]
    assert [segment for segment in segments if segment.exists()] == []
    for index in range(2):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port + index))


def test_a_port_that_is_taken_ends_the_servers_that_were_started(tmp_path):
    port = free_ports(2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1))
        other.listen()
        started = script(port, "--servers=2", f"--logs={tmp_path}")
        groups, end = set(), time.monotonic() + END_SECONDS
        while started.poll() is None and time.monotonic() < end:
            groups |= set(children(started.pid))
            time.sleep(0.01)
        said, _ = started.communicate(timeout=END_SECONDS)
    assert started.returncode == 1
    assert f"127.0.0.1:{port + 1} cannot be listened on" in said
    assert [members(group) for group in (started.pid, *groups)] == [[]] * (1 + len(groups))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))

"""scripts/train.sbatch with stand-ins for SLURM's commands and for the interpreter.

No SLURM is at hand; what the script asks of it (one task a node, signals handed on by srun) is
played by a few lines of Python.
"""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "train.sbatch"

SRUN = """\
import os, signal, subprocess, sys
given = sys.argv[1:]
options = [one for one in given if one.startswith("--") and given.index(one) < given.index("bash")]
nodes = next(one for one in options if one.startswith("--nodelist=")).split("=")[1].split(",")
assert f"--nodes={len(nodes)}" in options and f"--ntasks={len(nodes)}" in options
assert "--ntasks-per-node=1" in options and "--kill-on-bad-exit=1" in options
command = given[given.index("bash"):]
tasks = [
    subprocess.Popen(command, env={**os.environ, "SLURMD_NODENAME": node}) for node in nodes
]
signal.signal(signal.SIGTERM, lambda *_: [task.terminate() for task in tasks])
codes = [task.wait() for task in tasks]
sys.exit(max(abs(code) for code in codes))
"""

# Writes down what it was started with; PLAY_<what> says how it ends.
PYTHON = """\
import json, os, signal, sys, time
given = sys.argv[1:]
if given[0] == "-c":
    print(8)
    sys.exit()
what = "servers" if "serve_vllm.py" in given[0] else "trainer"
play = os.environ.get(f"PLAY_{what}", "0")
end = lambda number, frame: sys.exit(143)
signal.signal(signal.SIGTERM, end)
node = os.environ["SLURMD_NODENAME"]
with open(f"{os.environ['NOTES']}/{what}-{node}.part", "w") as file:
    names = ("MASTER_ADDR", "NODE_RANK", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT")
    json.dump({"given": given, **{name: os.environ.get(name) for name in names}}, file)
os.rename(file.name, file.name.replace(".part", ".json"))
if play == "until stopped":
    time.sleep(600)
sys.exit(int(play))
"""

SCONTROL = """\
import os, sys
if sys.argv[1] == "hostnames" or sys.argv[1:3] == ["show", "hostnames"]:
    print("\\n".join(sys.argv[3].split(",")))
else:
    with open(f"{os.environ['NOTES']}/scontrol", "a") as file:
        print(*sys.argv[1:], file=file)
"""

GETENT = """\
import sys
print(f"10.0.0.{sys.argv[2].removeprefix('node')} STREAM {sys.argv[2]}")
"""

CURL = """\
import os, sys
with open(f"{os.environ['NOTES']}/curl", "a") as file:
    print(sys.argv[-1], file=file)
"""


class Cluster:
    def __init__(self, folder):
        self.notes, self.bin = folder / "notes", folder / "bin"
        self.notes.mkdir()
        self.bin.mkdir()
        stubs = {"srun": SRUN, "python": PYTHON, "scontrol": SCONTROL, "getent": GETENT}
        for name, text in {**stubs, "curl": CURL}.items():
            path = self.bin / name
            path.write_text(f"#!{sys.executable} -S\n{text}")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def start(self, *options, nodes="node1,node2,node3", **environment):
        return subprocess.Popen(
            [SCRIPT, *options],
            env={
                "PATH": f"{self.bin}:{os.environ['PATH']}",
                "NOTES": str(self.notes),
                "SLURM_JOB_NODELIST": nodes,
                "SLURM_JOB_ID": "77",
                "SLURM_SUBMIT_DIR": str(ROOT),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options, **environment):
        job = self.start(*options, **environment)
        out, err = job.communicate(timeout=240)
        return job.returncode, out, err

    def wait_for(self, *names):
        end = time.monotonic() + 120
        while not all((self.notes / name).exists() for name in names):
            assert time.monotonic() < end, list(self.notes.iterdir())
            time.sleep(0.05)

    def read(self, name):
        return json.loads((self.notes / f"{name}.json").read_text())

    def requeued(self):
        path = self.notes / "scontrol"
        return path.exists() and path.read_text() == "requeue 77\n"


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path)


def test_every_node_runs_torchrun_and_goes_on_from_the_last_checkpoint(cluster):
    code, _, err = cluster.run("--config", "a.yaml", GRACE_SECONDS="99")
    assert code == 0, err
    for rank, node in enumerate(("node1", "node2", "node3")):
        task = cluster.read(f"trainer-{node}")
        given = task["given"]
        assert task["MASTER_ADDR"] == "node1"
        assert task["NODE_RANK"] == str(rank)
        assert task["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == "99"
        assert given[given.index("--node-rank") + 1] == str(rank)
        assert given[given.index("--nnodes") + 1] == "3"
        assert given[given.index("--nproc-per-node") + 1] == "8"
        assert given[given.index("-m", 2) :] == [
            *("-m", "gtpo_lit", "fit", "--config", "a.yaml", "--ckpt_path", "last"),
            *("--trainer.num_nodes", "3", "--trainer.devices", "8"),
        ]
    assert not cluster.requeued()


def test_servers_get_their_own_nodes_and_the_trainer_their_urls(cluster):
    code, _, err = cluster.run(
        "--config=a.yaml",
        nodes="node1,node2,node3,node4",
        SERVER_NODES="2",
        SERVERS_PER_NODE="2",
        SERVER_TENSOR_PARALLEL="4",
        MODEL="some/model",
        PLAY_servers="until stopped",
    )
    assert code == 0, err
    urls = [f"http://10.0.0.{node}:{port}" for node in (3, 4) for port in (8000, 8001)]
    for node in ("3", "4"):
        given = cluster.read(f"servers-node{node}")["given"]
        assert given[:2] == ["scripts/serve_vllm.py", "some/model"]
        # One address, neither loopback nor all of the node's.
        assert given[given.index("--host") + 1] == f"10.0.0.{node}"
        assert given[given.index("--servers") + 1] == "2"
        assert given[given.index("--tensor-parallel") + 1] == "4"
        assert given[given.index("--transport") + 1] == "nccl"
    # All were waited for.
    asked = (cluster.notes / "curl").read_text().split()
    assert asked == [f"{url}/health" for url in urls]
    for node in ("node1", "node2"):
        given = cluster.read(f"trainer-{node}")["given"]
        assert f"--data.sampler.urls=[{','.join(urls)}]" in given
        assert "--data.sampler.transport=nccl" in given
        assert "--data.sampler.nccl_address=node1" in given
    assert not (cluster.notes / "trainer-node3.json").exists()


def test_the_weights_folder_of_the_file_transport_is_handed_on(cluster):
    servers = {"SERVER_NODES": "1", "MODEL": "m", "PLAY_servers": "until stopped"}
    code, _, err = cluster.run(
        "--config=a.yaml", SERVER_TRANSPORT="file", WEIGHTS_FOLDER="/shared/weights", **servers
    )
    assert code == 0, err
    given = cluster.read("trainer-node1")["given"]
    assert "--data.sampler.transport=file" in given
    assert "--data.sampler.weights_folder=/shared/weights" in given


@pytest.mark.parametrize("servers", [{}, {"SERVER_NODES": "1", "MODEL": "m"}])
def test_sigterm_ends_the_trainer_and_puts_the_job_back_into_the_queue(cluster, servers):
    job = cluster.start(
        "--config=a.yaml",
        PLAY_trainer="until stopped",
        PLAY_servers="until stopped",
        **servers,
    )
    cluster.wait_for("trainer-node1.json", "trainer-node2.json")
    job.send_signal(signal.SIGTERM)
    out, _ = job.communicate(timeout=240)
    assert job.returncode == 143
    assert "the job goes back to the queue" in out
    assert cluster.requeued()


def test_a_job_that_was_requeued_too_often_stays_down(cluster):
    job = cluster.start(
        "--config=a.yaml", PLAY_trainer="until stopped", SLURM_RESTART_COUNT="2", MAX_REQUEUES="2"
    )
    cluster.wait_for("trainer-node1.json")
    job.send_signal(signal.SIGTERM)
    _, err = job.communicate(timeout=240)
    assert job.returncode == 2
    assert "stopped 2 times without an end" in err
    assert not cluster.requeued()


def test_a_run_that_fails_by_itself_is_not_started_again(cluster):
    code, _, _ = cluster.run("--config=a.yaml", PLAY_trainer="3")
    assert code == 3
    assert not cluster.requeued()


def test_servers_that_end_early_end_the_job(cluster):
    (cluster.bin / "curl").write_text("#!/bin/sh\nexit 7\n")
    code, _, err = cluster.run("--config=a.yaml", SERVER_NODES="1", MODEL="m", PLAY_servers="1")
    assert code == 2
    assert "the servers ended before they were up" in err
    assert not (cluster.notes / "trainer-node1.json").exists()


@pytest.mark.parametrize(
    ("options", "environment", "message"),
    [
        ([], {}, "no options for gtpo-lit fit"),
        (["--config=a"], {"SERVER_NODES": "3"}, "leaves none of 3 nodes for training"),
        (["--config=a"], {"SERVER_NODES": "1"}, "needs MODEL"),
        (
            ["--config=a"],
            {"SERVER_NODES": "1", "MODEL": "m", "SERVER_TRANSPORT": "file"},
            "needs WEIGHTS_FOLDER",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(cluster, options, environment, message):
    code, _, err = cluster.run(*options, **environment)
    assert code == 2
    assert err.startswith("train.sbatch: ")
    assert message in err
    assert list(cluster.notes.iterdir()) == []

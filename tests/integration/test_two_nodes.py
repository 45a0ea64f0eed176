"""scripts/torchrun.sh as two agents, each a node of one process (gloo), against one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gtpo_lit.cli import main
from gtpo_lit.sampling.vllm_nccl import free_port

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "torchrun.sh"
TINY = (
    "--config=configs/quickstart.yaml",
    "--trainer.max_epochs=2",
    "--trainer.check_val_every_n_epoch=2",
    "--data.group_size=4",
    "--data.problems_per_step=4",
    "--data.problems.init_args.size=24",
    "--data.validation.chains.init_args.size=4",
    "--data.validation_samples=4",
    "--data.sampling.max_tokens=26",
    # Two ranks draw two prompts each, so one rank draws them in the same batches.
    "--config=configs/sampler/transformers.yaml",
    "--data.sampler.requests_per_batch=2",
)
EXACT = ("--model.policy.dtype=float64", "--data.micro_batches=2")


def node(rank, port, *options, **environment):
    """One agent of two."""
    sizes = {"NNODES": "2", "NODE_RANK": str(rank), "NPROC_PER_NODE": "1", "MASTER_PORT": str(port)}
    return subprocess.Popen(
        [SCRIPT, *options],
        env={**os.environ, "PYTHON": sys.executable, **sizes, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def run_two(*options):
    """Both agents to their end; what each wrote to stderr."""
    port = free_port()
    agents = [node(rank, port, *options) for rank in (0, 1)]
    try:
        said = [agent.communicate(timeout=600)[1] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert [agent.returncode for agent in agents] == [0, 0], said
    return said


@pytest.mark.parametrize(
    "overlay",
    [
        "ddp",
        pytest.param("ddp_multinode", marks=pytest.mark.slow),
        pytest.param("fsdp2", marks=pytest.mark.slow),
    ],
)
def test_two_nodes_learn_as_one_process(runs, overlay, monkeypatch):
    monkeypatch.chdir(ROOT)
    root = f"--run.root={runs.root}"
    # Two ranks share the same micro-batches; in float64, rounding turns into no other number.
    main(["fit", *TINY, *EXACT, root, "--run.name=one"])
    # The overlays ask for other sizes than the script starts, which win.
    config = f"--config=configs/strategy/{overlay}.yaml"
    said = run_two(*TINY, *EXACT, config, root, "--run.name=two")
    assert "GLOBAL_RANK: 0, MEMBER: 1/2" in said[0]
    assert "GLOBAL_RANK: 1, MEMBER: 2/2" in said[1]
    ours, theirs = runs.rows(name="one"), runs.rows(name="two")
    assert [row["step"] for row in theirs] == ["0", "1", "2"]
    exact = ("train/reward/mean", "train/length/mean", "train/length/max", "train/correct/fraction")
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if name in exact or name.startswith("val/"):
                assert first[name] == second[name], name
            elif first[name]:
                wanted = pytest.approx(float(second[name]), rel=1e-5, abs=1e-5)
                assert float(first[name]) == wanted, name
    assert float(theirs[-1]["train/gradient/norm"]) > 0


@pytest.mark.parametrize(
    ("environment", "options", "message"),
    [
        ({"NNODES": "2", "NODE_RANK": "2"}, ["--config=x"], "NODE_RANK=2 must be below NNODES=2"),
        ({"NNODES": "two"}, ["--config=x"], "NNODES=two is not a number"),
        ({}, [], "no options for gtpo-lit fit"),
    ],
)
def test_what_cannot_start_is_refused_in_one_line(environment, options, message):
    agent = node(0, 29500, *options, **environment)
    said = agent.communicate(timeout=240)[1]
    assert agent.returncode == 2
    assert said.startswith(f"torchrun.sh: {message}")
    assert said.count("\n") == 1

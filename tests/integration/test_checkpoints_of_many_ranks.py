"""Checkpoints of two ranks (gloo): a disk that fills up, other sizes, other programs."""

import re

import pytest
import torch
from transformers import AutoModelForCausalLM

from gtpo_lit.consolidate import main as consolidate
from gtpo_lit.consolidate import read_checkpoint
from gtpo_lit.policy import PolicySpec

FSDP2 = ("--config=configs/strategy/fsdp2.yaml", "--data.micro_batches=2")
DDP = ("--config=configs/strategy/ddp.yaml", "--data.micro_batches=2")
FULL = '''
import os, resource
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from lightning.pytorch import Callback

write, calls = dcp.FileSystemWriter.write_data, []

def full(self, plan, planner):
    calls.append(len(calls))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if len(calls) == 2 and dist.get_rank() == {rank}:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        return write(self, plan, planner)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

dcp.FileSystemWriter.write_data = full

class Nothing(Callback):
    """Brings this module into every rank."""
'''


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 1])
def test_a_full_disk_of_one_rank_leaves_the_checkpoint_before(runs, tmp_path, monkeypatch, rank):
    (tmp_path / "full.py").write_text(FULL.format(rank=rank))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = runs.apart(*FSDP2, "--trainer.max_epochs=3", "--trainer.callbacks+=full.Nothing")
    assert done.returncode == 1, done.stderr[-3000:]
    words = " ".join(done.stderr.split())
    message = r"CheckpointError: checkpoint \S+step=0002.ckpt could not be written \(rank \d\): "
    message += rf"OSError: rank {rank}: OSError: \[Errno 27\] File too large"
    assert re.search(message, words), done.stderr[-3000:]
    assert re.search(r"last complete checkpoint: \S+step=0001.ckpt", words)
    names = [path.name for path in (runs.version(0) / "checkpoints").iterdir()]
    assert names == ["step=0001.ckpt"]
    monkeypatch.delenv("PYTHONPATH")
    again = runs.apart(*FSDP2, "--trainer.max_epochs=3", "--ckpt_path=last")
    assert again.returncode == 0, again.stderr[-2000:]
    assert [row["step"] for row in runs.rows()] == ["0", "1", "2", "3"]


def test_a_sharded_checkpoint_becomes_a_hugging_face_folder(runs, tmp_path):
    done = runs.apart(*FSDP2)
    assert done.returncode == 0, done.stderr[-2000:]
    checkpoint = runs.version() / "checkpoints" / "step=0002.ckpt"
    assert checkpoint.is_dir()
    folder = tmp_path / "policy"
    consolidate([str(checkpoint), str(folder), "--huggingface"])
    saved = read_checkpoint(checkpoint)["state_dict"]
    before = PolicySpec().load().model.state_dict()
    loaded = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    assert {f"policy.model.{name}" for name in loaded} == {*saved}
    assert all(torch.equal(value, saved[f"policy.model.{name}"]) for name, value in loaded.items())
    # Trained, not the weights that the run began with.
    assert not any(torch.equal(value, before[name]) for name, value in loaded.items())


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [(2, 1), (1, 2)])
def test_ddp_goes_on_at_another_number_of_ranks(runs, first, then):
    options = (*DDP, "--model.policy.dtype=float64", "--trainer.max_epochs=4")
    whole = runs.apart(*options, "--run.name=whole", f"--trainer.devices={first}")
    assert whole.returncode == 0, whole.stderr[-2000:]
    middle = runs.version(name="whole") / "checkpoints" / "step=0002.ckpt"
    other = runs.apart(
        *options, "--run.name=other", f"--trainer.devices={then}", f"--ckpt_path={middle}"
    )
    assert other.returncode == 0, other.stderr[-2000:]
    assert f"{first} rank" in " ".join(other.stderr.split())
    ours, theirs = runs.rows(name="other"), runs.rows(name="whole")
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for one, two in zip(ours, theirs, strict=True):
        assert one.keys() == two.keys()
        for name, value in one.items():
            if value:
                assert float(value) == pytest.approx(float(two[name]), rel=1e-5, abs=1e-5), name

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from gtpo_lit.sampling.vllm_transfer import read_tensors
from gtpo_lit.sampling.weights_file import (
    DTYPES,
    header_of,
    new_path,
    remove_orphans,
    weights_file,
)


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.whole = nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.odd = nn.Parameter(torch.tensor([1.5, -2.0, 0.25], dtype=torch.bfloat16))
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).T)
        self.number = nn.Parameter(torch.tensor(7.0, dtype=torch.float64))
        self.empty = nn.Parameter(torch.zeros(0, 4))
        self.tied = self.whole
        self.register_buffer("counts", torch.tensor([3, 4]))
        self.register_buffer("scratch", torch.ones(2), persistent=False)


def test_the_file_holds_every_weight_once_and_is_gone_afterwards(tmp_path):
    path, model = tmp_path / "weights", Mixed()
    with weights_file(model, path) as error:
        assert error is None
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        found, streamed = load_file(path), dict(read_tensors(path))
        wanted = {"whole", "odd", "turned", "number", "empty", "counts"}
        assert found.keys() == streamed.keys() == wanted
        for name, value in found.items():
            for got in (value, streamed[name]):
                assert got.dtype == getattr(model, name).dtype
                assert torch.equal(got, getattr(model, name).detach())
    assert list(tmp_path.iterdir()) == []


def test_it_reads_as_what_was_saved(tmp_path, tiny_qwen2):
    from gtpo_lit.policy import PolicySpec

    model = PolicySpec(path=str(tiny_qwen2)).load().model
    saved = load_file(tiny_qwen2 / "model.safetensors")
    with weights_file(model, tmp_path / "weights"):
        found = load_file(tmp_path / "weights")
    assert found.keys() == saved.keys()
    assert all(torch.equal(found[name], saved[name]) for name in saved)


def test_an_error_inside_leaves_no_file(tmp_path):
    with (
        pytest.raises(KeyboardInterrupt),
        weights_file(nn.Linear(1, 1), tmp_path / "weights"),
    ):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


class Sharded(nn.Linear):
    """Counts how many weights are made whole, as a collective would be joined."""

    def state_dict(self):
        owner = self

        class Shard:
            shape, dtype = torch.Size([1]), torch.float32

            def element_size(self):
                return 4

            def full_tensor(self):
                owner.gathered = getattr(owner, "gathered", 0) + 1
                return torch.zeros(1)

        return {"weight": Shard(), "bias": Shard()}


def test_a_full_disk_is_told_after_the_gathering_is_over(tmp_path):
    model = Sharded(1, 1)
    with weights_file(model, tmp_path / "missing" / "weights") as error:
        assert isinstance(error, FileNotFoundError)
    assert model.gathered == 2


def test_other_ranks_only_help_gathering():
    model = Sharded(1, 1)
    with weights_file(model, None) as error:
        assert error is None
    assert model.gathered == 2


def test_a_file_that_is_there_already_is_not_written_over(tmp_path):
    path = tmp_path / "weights"
    path.write_text("somebody's")
    with weights_file(nn.Linear(1, 1), path) as error:
        assert isinstance(error, FileExistsError)
    assert path.read_text() == "somebody's"


def test_a_dtype_without_a_file_form_is_refused():
    assert torch.complex64 not in DTYPES
    with pytest.raises(ValueError, match="weight 'c' has dtype torch.complex64"):
        header_of([("c", torch.zeros(1, dtype=torch.complex64))])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype, tmp_path):
    model = nn.Module()
    model.register_buffer("x", torch.tensor([0, 1, 1, 0, 1]).to(dtype))
    with weights_file(model, tmp_path / "weights"):
        found = load_file(tmp_path / "weights")["x"]
    assert found.dtype == dtype
    assert found.double().tolist() == [0, 1, 1, 0, 1]


def test_files_of_processes_that_are_gone_are_removed_and_no_others(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    orphan = tmp_path / f"gtpo-lit-{gone.pid}-0123abcd.safetensors"
    kept = [
        new_path(tmp_path),
        tmp_path / f"gtpo-lit-{os.getppid()}-0123abcd.safetensors",
        tmp_path / f"gtpo-lit-{gone.pid}-mine.safetensors",
        tmp_path / "other.safetensors",
    ]
    for path in (orphan, *kept):
        path.touch()
    assert remove_orphans(tmp_path) == [orphan]
    assert sorted(tmp_path.iterdir()) == sorted(kept)

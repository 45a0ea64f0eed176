"""Which checkpoints on disk are whole."""

import pytest
import torch
import torch.distributed.checkpoint as dcp

from gtpo_lit.torn_checkpoint import why_torn


@pytest.fixture
def sharded(tmp_path):
    folder = tmp_path / "step=0001.ckpt"
    dcp.save({"state_dict": {"w": torch.arange(1000.0)}}, checkpoint_id=folder, no_dist=True)
    torch.save({"rl_step": 1}, folder / "meta.pt")
    return folder


def cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def test_a_file_is_whole_up_to_its_last_byte(tmp_path):
    path = tmp_path / "one.ckpt"
    assert why_torn(path) == "is not there"
    torch.save({"w": torch.arange(1000.0)}, path)
    assert why_torn(path) is None
    cut(path, 0.99)
    assert why_torn(path) == "is cut short, or no checkpoint"
    path.write_bytes(b"")
    assert why_torn(path) == "is empty"


def test_a_folder_is_whole_with_all_its_parts(sharded):
    assert why_torn(sharded) is None


@pytest.mark.parametrize(
    ("name", "harm", "why"),
    [
        ("meta.pt", "remove", "lacks meta.pt"),
        ("meta.pt", "cut", "holds a meta.pt that is cut short, or no checkpoint"),
        (".metadata", "remove", "lacks .metadata"),
        (".metadata", "cut", "holds a .metadata that is cut short"),
        ("__0_0.distcp", "remove", "lacks __0_0.distcp, or some of it"),
        ("__0_0.distcp", "cut", "lacks __0_0.distcp, or some of it"),
    ],
)
def test_what_is_missing_is_said(sharded, name, harm, why):
    path = sharded / name
    if harm == "remove":
        path.unlink()
    else:
        cut(path)
    assert why_torn(sharded) == why

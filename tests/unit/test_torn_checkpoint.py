import shutil
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp

from gtpo_lit.run_folder import RunFolder, last_checkpoint
from gtpo_lit.torn_checkpoint import why_torn


def make_sharded(path: Path) -> Path:
    tensors = {"state_dict": {"w": torch.arange(1000.0)}, "optimizer_0": {"state": {}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(tensors, checkpoint_id=path, no_dist=True)
    torch.save({"rl_step": 2, "epoch": 1}, path / "meta.pt")
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "step=0002.ckpt"
    torch.save({"w": torch.arange(1000.0), "rl_step": 2}, path)
    return path


def test_whole_ones_are_whole(file: Path, tmp_path: Path) -> None:
    assert why_torn(file) is None
    assert why_torn(make_sharded(tmp_path / "folder")) is None
    assert why_torn(tmp_path / "nowhere") == "is not there"


@pytest.mark.parametrize("keep", [1, 100, 1000, -1, -100])
def test_a_file_that_is_cut_anywhere_is_torn(file: Path, keep: int) -> None:
    file.write_bytes(file.read_bytes()[:keep])
    assert why_torn(file) == "is cut short, or no checkpoint"


def test_a_file_of_zeros_or_with_holes_is_torn(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(bytes(len(content)))
    assert why_torn(file) == "is cut short, or no checkpoint"
    file.write_bytes(bytes(len(content) // 2) + content[len(content) // 2 :])
    assert why_torn(file) in ("has holes", "is cut short, or no checkpoint")
    file.write_bytes(b"")
    assert why_torn(file) == "is empty"


@pytest.mark.parametrize(
    ("name", "keep", "reason"),
    [
        ("meta.pt", None, "lacks meta.pt"),
        ("meta.pt", 0, "holds a meta.pt that is empty"),
        ("meta.pt", 50, "holds a meta.pt that is cut short, or no checkpoint"),
        (".metadata", None, "lacks .metadata"),
        (".metadata", 0, "holds a .metadata that is cut short"),
        (".metadata", 60, "holds a .metadata that is cut short"),
        ("__0_0.distcp", None, "lacks __0_0.distcp"),
        ("__0_0.distcp", 100, "holds a __0_0.distcp that is cut short"),
    ],
)
def test_a_folder_without_some_of_its_parts_is_torn(tmp_path, name, keep, reason) -> None:
    part = make_sharded(tmp_path / "folder") / name
    content = part.read_bytes()
    part.unlink()
    if keep is not None:
        part.write_bytes(content[:keep])
    assert why_torn(tmp_path / "folder") == reason


def test_the_newest_whole_one_is_found_and_the_torn_ones_named(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path / "run" / "version_0")
    folder.checkpoints.mkdir(parents=True)
    for step in (1, 3):
        torch.save({"rl_step": step}, folder.checkpoint(step))
    make_sharded(folder.checkpoint(2))
    make_sharded(folder.checkpoint(4))
    (folder.checkpoint(4) / ".metadata").unlink()
    folder.checkpoint(3).write_bytes(b"")
    with pytest.warns(UserWarning, match=r"step=000[34].ckpt (is empty|lacks .metadata)") as seen:
        assert last_checkpoint(tmp_path, "run") == folder.checkpoint(2)
    assert len(seen) == 2
    shutil.rmtree(folder.checkpoint(2))
    folder.checkpoint(1).unlink()
    with pytest.warns(UserWarning, match="passed over"):
        assert last_checkpoint(tmp_path, "run") is None

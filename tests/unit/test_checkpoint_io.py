"""A checkpoint goes straight into its file, and a fault of the system keeps its own name."""

import resource
import signal
from types import SimpleNamespace

import pytest
import torch
from lightning.fabric.plugins import TorchCheckpointIO

from gtpo_lit.checkpoint_io import StraightCheckpointIO, write_straight
from gtpo_lit.torn_checkpoint import why_torn

CONTENT = {"w": torch.arange(4.0), "epoch": 2, "loops": {"at": (1, "a", None)}}


@pytest.mark.parametrize("as_text", [True, False])
def test_what_is_written_is_read_again(tmp_path, as_text):
    path = tmp_path / "new" / "folders" / "step=0001.ckpt"
    StraightCheckpointIO().save_checkpoint(CONTENT, str(path) if as_text else path)
    loaded = torch.load(path, weights_only=True)
    assert loaded.pop("w").tolist() == [0.0, 1.0, 2.0, 3.0]
    assert loaded == {"epoch": 2, "loops": {"at": (1, "a", None)}}
    assert StraightCheckpointIO().load_checkpoint(path)["epoch"] == 2
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_bare_name_is_written_into_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    StraightCheckpointIO().save_checkpoint(CONTENT, "one.ckpt")
    assert torch.load(tmp_path / "one.ckpt", weights_only=True)["epoch"] == 2


def test_a_disk_that_fills_up_is_told_as_such(tmp_path):
    """A limit on the size of files, as the system sets it, stands for the end of a disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            StraightCheckpointIO().save_checkpoint({"w": torch.zeros(100_000)}, tmp_path / "a")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert why_torn(tmp_path / "a") == "is cut short, or no checkpoint"


def test_a_fault_that_is_not_the_systems_keeps_its_own_name(tmp_path, monkeypatch):
    def fail(*args):
        raise RuntimeError("unexpected pos 64 vs 0")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(RuntimeError, match="unexpected pos 64 vs 0"):
        StraightCheckpointIO().save_checkpoint(CONTENT, tmp_path / "a")


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file"):
        StraightCheckpointIO().save_checkpoint(CONTENT, tmp_path / "file" / "a.ckpt")


def test_storage_options_are_refused(tmp_path):
    with pytest.raises(TypeError, match=r"storage_options=\{'a': 1\} is not supported"):
        StraightCheckpointIO().save_checkpoint(CONTENT, tmp_path / "a", storage_options={"a": 1})
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("before", [None, TorchCheckpointIO()])
def test_a_strategy_without_a_choice_writes_straight(before):
    strategy = SimpleNamespace(_checkpoint_io=before)
    write_straight(SimpleNamespace(strategy=strategy))
    assert type(strategy._checkpoint_io) is StraightCheckpointIO


def test_a_choice_of_ones_own_stands():
    class Own(TorchCheckpointIO):
        """Writes in another way."""

    own = Own()
    strategy = SimpleNamespace(_checkpoint_io=own)
    write_straight(SimpleNamespace(strategy=strategy))
    assert strategy._checkpoint_io is own

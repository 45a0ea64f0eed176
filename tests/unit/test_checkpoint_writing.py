"""A checkpoint has its name when it is whole; else there is no part, and the old ones stay."""

import threading
from types import SimpleNamespace

import pytest
import torch
from torch.distributed.checkpoint.api import CheckpointException

from gtpo_lit import checkpoint_writing
from gtpo_lit.checkpoint_io import StraightCheckpointIO
from gtpo_lit.checkpoint_writing import CheckpointError, remove_partials, write_checkpoint


class Strategy:
    """Saves as a single device does, or does `instead`."""

    def __init__(self, instead=None) -> None:
        self.instead = instead
        self.order = []

    def barrier(self, name):
        self.order.append("barrier")

    def save_checkpoint(self, content, path):
        self.order.append(path.name)
        if self.instead is not None:
            self.instead(path)
        else:
            StraightCheckpointIO().save_checkpoint(content, path)


def trainer(instead=None, *, zero=True, content=None):
    connector = SimpleNamespace(
        dump_checkpoint=lambda weights_only: content or {"epoch": 1, "weights_only": weights_only}
    )
    return SimpleNamespace(
        is_global_zero=zero, strategy=Strategy(instead), _checkpoint_connector=connector
    )


def write(trainer, path, weights_only=False):
    write_checkpoint(trainer, path, weights_only=weights_only, last="the one before")


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize("weights_only", [False, True])
def test_a_whole_one_has_its_name_and_content(tmp_path, weights_only):
    path = tmp_path / "step=0002.ckpt"
    one = trainer()
    write(one, path, weights_only)
    assert names(tmp_path) == ["step=0002.ckpt"]
    assert torch.load(path, weights_only=True) == {"epoch": 1, "weights_only": weights_only}
    assert one.strategy.order == ["barrier", "step=0002.ckpt.partial"]


def test_a_sharded_one_is_a_folder_in_place_of_what_an_earlier_try_left(tmp_path):
    path = tmp_path / "step=0002.ckpt"
    (tmp_path / "step=0002.ckpt.partial").mkdir()
    (tmp_path / "step=0002.ckpt.partial" / "stale").write_text("x")
    path.write_text("old")

    def shards(partial):
        partial.mkdir()
        (partial / "__0_0.distcp").write_text("new")

    write(trainer(shards), path)
    assert names(tmp_path) == ["step=0002.ckpt"]
    assert names(path) == ["__0_0.distcp"]


FAULTS = [
    (OSError(28, "No space left on device"), r"OSError: \[Errno 28\] No space left on device"),
    (RuntimeError("unexpected pos"), "RuntimeError: unexpected pos"),
    (CheckpointException("shard", {}), "CheckpointException"),
    (TypeError("cannot pickle it"), "TypeError: cannot pickle it"),
]


@pytest.mark.parametrize(("fault", "text"), FAULTS)
@pytest.mark.parametrize("folder", [False, True])
def test_a_fault_leaves_the_old_one_and_no_part_of_the_new(tmp_path, fault, text, folder):
    path = tmp_path / "step=0002.ckpt"
    path.write_text("old")

    def fail(partial):
        if folder:
            partial.mkdir()
            (partial / "half").write_text("half")
        else:
            partial.write_text("half")
        raise fault

    message = (
        rf"checkpoint {path} could not be written \(rank 0\): {text}.*"
        "No part of it is left; last complete checkpoint: the one before$"
    )
    with pytest.raises(CheckpointError, match=f"(?s){message}"):
        write(trainer(fail), path)
    assert names(tmp_path) == ["step=0002.ckpt"]
    assert path.read_text() == "old"


@pytest.mark.parametrize("state", [lambda: None, threading.Lock()])
def test_a_state_that_cannot_be_saved_is_told_on_all_ranks(tmp_path, state):
    """As a callback of one's own may put one in."""
    with pytest.raises(CheckpointError, match=r"rank 0\): \w+: .*pickle"):
        write(trainer(content={"callbacks": {"Mine": state}}), tmp_path / "step=0002.ckpt")
    assert names(tmp_path) == []


def test_a_name_that_cannot_be_given_is_a_fault_too(tmp_path, monkeypatch):
    def fail(partial, final):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(checkpoint_writing, "move_into_place", fail)
    with pytest.raises(CheckpointError, match=r"rank 0\): OSError: .*Input/output error"):
        write(trainer(), tmp_path / "step=0002.ckpt")
    assert names(tmp_path) == []


def test_what_one_rank_could_not_write_no_rank_has_written(tmp_path, monkeypatch):
    monkeypatch.setattr(
        checkpoint_writing, "all_gather", lambda mine: [mine, "OSError: full", "OSError: late"]
    )
    with pytest.raises(CheckpointError, match=r"\(rank 1\): OSError: full\. No part"):
        write(trainer(), tmp_path / "step=0002.ckpt")
    assert names(tmp_path) == []


def test_only_the_first_rank_clears_away_and_gives_the_name(tmp_path):
    partial = tmp_path / "step=0002.ckpt.partial"
    partial.write_text("of the first rank")
    write(trainer(lambda path: None, zero=False), tmp_path / "step=0002.ckpt")
    assert names(tmp_path) == [partial.name]
    assert partial.read_text() == "of the first rank"


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_an_end_of_the_process_is_no_fault_and_its_part_is_cleared_away_later(tmp_path, end):
    def stop(partial):
        partial.write_text("half")
        raise end

    path = tmp_path / "step=0002.ckpt"
    with pytest.raises(end):
        write(trainer(stop), path)
    assert names(tmp_path) == ["step=0002.ckpt.partial"]
    remove_partials(tmp_path)
    assert names(tmp_path) == []


def test_only_parts_are_cleared_away(tmp_path):
    for name in ("step=0001.ckpt", "notes.partial.txt", "step=0002.ckpt.partial"):
        (tmp_path / name).write_text("x")
    (tmp_path / "step=0003.ckpt.partial").mkdir()
    (tmp_path / "step=0003.ckpt.partial" / "half").write_text("x")
    (tmp_path / "step=0001.ckpt.old.partial").mkdir()
    remove_partials(tmp_path)
    assert names(tmp_path) == ["notes.partial.txt", "step=0001.ckpt"]
    remove_partials(tmp_path / "nowhere")

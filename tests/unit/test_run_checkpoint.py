from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from gtpo_lit.metrics_csv import read_rows
from gtpo_lit.run_checkpoint import RunCheckpoint, refuse_mid_step_checkpoints
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger

SCRIPT = Path(__file__).with_name("small_run.py")
small = runpy.run_path(str(SCRIPT))


def run_script(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(root), *options],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return find_run_logger(small["run"](tmp_path_factory.mktemp("whole"), steps=5)).folder


def test_names_and_content_count_rl_steps(uninterrupted: RunFolder) -> None:
    assert uninterrupted.checkpoint_steps() == [1, 2, 3, 4, 5]
    content = torch.load(uninterrupted.checkpoint(3), weights_only=True)
    assert (content["rl_step"], content["epoch"], content["global_step"]) == (3, 2, 6)


class _AtSave(Callback):
    """What `metrics.csv` holds while a checkpoint is being written."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, dict[str, str]]] = []

    def on_save_checkpoint(self, trainer, pl_module, checkpoint) -> None:
        rows = read_rows(find_run_logger(trainer).folder.metrics)
        self.seen.append((checkpoint["epoch"] + 1, rows[checkpoint["epoch"] + 1]))


def test_the_row_is_on_disk_and_final_before_its_checkpoint(tmp_path: Path) -> None:
    spy = _AtSave()
    trainer = small["run"](tmp_path, steps=4, extra=(spy,))
    rows = read_rows(find_run_logger(trainer).folder.metrics)
    assert [step for step, _ in spy.seen] == [1, 2, 3, 4]
    for step, row in spy.seen:
        assert row == rows[step]
        assert {"train/loss_epoch", "train/entropy/mean"} <= row.keys()
    assert "val/a/pass@1" in rows[2]


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_resuming_from_any_step_repeats_the_run(
    tmp_path: Path, uninterrupted: RunFolder, step: int
) -> None:
    shutil.copytree(uninterrupted.path, tmp_path / "small" / "version_0")
    first = RunFolder(path=tmp_path / "small" / "version_0")
    trainer = small["run"](tmp_path, steps=5, ckpt_path=first.checkpoint(step))
    resumed = find_run_logger(trainer).folder
    assert resumed.path.name == "version_1"
    assert resumed.metrics.read_bytes() == uninterrupted.metrics.read_bytes()
    assert first.metrics.read_bytes() == uninterrupted.metrics.read_bytes()
    keys = ("val", "finished", "rl_steps", "optimiser_steps")
    one, two = resumed.read_summary(), uninterrupted.read_summary()
    assert {key: one[key] for key in keys} == {key: two[key] for key in keys}


def test_a_killed_run_goes_on_in_place(tmp_path: Path, uninterrupted: RunFolder) -> None:
    killed = run_script(tmp_path, "--steps", "5", "--die_in_step", "4")
    assert killed.returncode == -9
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    assert folder.checkpoint_steps() == [1, 2, 3]
    assert not folder.summary.exists()
    # Row 4 has begun: the first micro-batch was logged before the kill.
    assert list(read_rows(folder.metrics)) == [0, 1, 2, 3, 4]

    trainer = small["run"](tmp_path, steps=5, ckpt_path=folder.newest_checkpoint())
    assert find_run_logger(trainer).folder.path == folder.path.resolve()
    assert folder.metrics.read_bytes() == uninterrupted.metrics.read_bytes()
    assert folder.finished
    assert folder.read_summary()["val"]["before"] == uninterrupted.read_summary()["val"]["before"]
    assert list(read_rows(folder.timing)) == [1, 2, 3, 4, 5]


def test_keep_last_and_every_n_epochs(tmp_path: Path) -> None:
    trainer = small["run"](tmp_path, steps=5, every_n_epochs=2)
    assert find_run_logger(trainer).folder.checkpoint_steps() == [2, 4, 5]
    trainer = small["run"](tmp_path, steps=5, keep_last=2)
    assert find_run_logger(trainer).folder.checkpoint_steps() == [4, 5]


def test_the_checkpoint_resumed_from_is_kept(tmp_path: Path, uninterrupted: RunFolder) -> None:
    shutil.copytree(uninterrupted.path, tmp_path / "small" / "version_0")
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    folder.summary.unlink()
    for step in (1, 3, 4, 5):
        folder.checkpoint(step).unlink()
    small["run"](tmp_path, steps=5, ckpt_path=folder.checkpoint(2), keep_last=1)
    assert folder.checkpoint_steps() == [2, 5]


def test_a_failed_save_leaves_no_checkpoint(tmp_path: Path, monkeypatch) -> None:
    save = Trainer.save_checkpoint

    def stop(self, path, *args, **kwargs) -> None:
        save(self, path, *args, **kwargs)
        if "0002" in str(path):
            raise OSError("disk full")

    monkeypatch.setattr(Trainer, "save_checkpoint", stop)
    with pytest.raises(OSError, match="disk full"):
        small["run"](tmp_path, steps=3)
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    assert folder.checkpoint_steps() == [1]
    assert list(read_rows(folder.metrics)) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_n_train_steps": 5}, "every_n_train_steps=5.*an RL step is one epoch"),
        ({"train_time_interval": timedelta(minutes=1)}, "train_time_interval"),
        ({"every_n_epochs": 0}, "every_n_epochs=0"),
        ({"keep_last": 0}, "keep_last=0"),
    ],
)
def test_checkpoints_within_a_step_are_refused(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunCheckpoint(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"every_n_train_steps": 5},
        {"train_time_interval": timedelta(minutes=1)},
        {"save_on_exception": True},
    ],
)
def test_other_callbacks_are_checked_too(tmp_path: Path, options) -> None:
    trainer = small["make_trainer"](tmp_path, extra=(ModelCheckpoint(**options),))
    with pytest.raises(ValueError, match=rf"ModelCheckpoint\({next(iter(options))}="):
        refuse_mid_step_checkpoints(trainer)
    with pytest.raises(ValueError, match="rollouts in flight"):
        trainer.fit(small["SmallModule"](), datamodule=small["SmallData"]())


def test_the_logger_must_know_the_checkpoint(tmp_path: Path) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=1)).folder
    trainer = small["make_trainer"](tmp_path)
    with pytest.raises(ValueError, match=r"RunLogger\(ckpt_path=None\)"):
        trainer.fit(
            small["SmallModule"](), datamodule=small["SmallData"](), ckpt_path=folder.checkpoint(1)
        )


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["script", "torchrun"])
def test_two_ranks_write_one_folder(
    tmp_path: Path, uninterrupted: RunFolder, launcher: str
) -> None:
    options = ("--steps", "3", "--devices", "2")
    if launcher == "script":
        done = run_script(tmp_path, *options)
    else:
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2"]
            + ["--standalone", str(SCRIPT), str(tmp_path), *options],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [entry.name for entry in (tmp_path / "small").iterdir()] == ["version_0"]
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    assert folder.checkpoint_steps() == [1, 2, 3]
    # Five problems on two ranks are six with a repeat, and still five in the measure.
    single = read_rows(uninterrupted.metrics)
    rows = read_rows(folder.metrics)
    for step in (0, 1, 2, 3):
        assert rows[step] == single[step]
    assert done.stdout.strip().splitlines()[-1].startswith("val/b/pass@1: 0.0000 -> ")

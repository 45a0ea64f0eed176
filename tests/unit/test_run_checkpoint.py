from __future__ import annotations

import json
import os
import random
import runpy
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint

from gtpo_lit.checkpoint_io import StraightCheckpointIO
from gtpo_lit.checkpoint_writing import CheckpointError
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


@pytest.mark.parametrize("fault", [OSError("disk full"), RuntimeError("unexpected pos")])
def test_a_failed_save_leaves_no_checkpoint(tmp_path: Path, monkeypatch, fault) -> None:
    save = StraightCheckpointIO.save_checkpoint

    def stop(self, checkpoint, path, *args, **kwargs) -> None:
        save(self, checkpoint, path, *args, **kwargs)
        if "0002" in str(path):
            raise fault

    monkeypatch.setattr(StraightCheckpointIO, "save_checkpoint", stop)
    with pytest.raises(CheckpointError, match=rf"step=0002.*{fault}.*last.*step=0001.ckpt"):
        small["run"](tmp_path, steps=3)
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    assert [entry.name for entry in folder.checkpoints.iterdir()] == ["step=0001.ckpt"]
    assert list(read_rows(folder.metrics)) == [0, 1, 2]


def test_nothing_is_written_beside_the_checkpoint(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    seen = []
    replace = os.replace

    def look(source, target) -> None:
        if str(target).endswith(".ckpt"):
            seen.append(sorted(entry.name for entry in Path(source).parent.iterdir()))
            seen.append(list((tmp_path / "temporary").rglob("*")))
        replace(source, target)

    monkeypatch.setattr(os, "replace", look)
    small["run"](tmp_path, steps=1)
    assert seen == [["step=0001.ckpt.partial"], []]


def test_what_a_kill_left_is_cleared_away(tmp_path: Path, uninterrupted: RunFolder) -> None:
    shutil.copytree(uninterrupted.path, tmp_path / "small" / "version_0")
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    folder.summary.unlink()
    for step in (3, 4, 5):
        folder.checkpoint(step).unlink()
    (folder.checkpoints / "step=0003.ckpt.partial").write_bytes(b"half")
    (folder.checkpoints / "step=0004.ckpt.partial").mkdir()
    small["run"](tmp_path, steps=3, ckpt_path=folder.checkpoint(2))
    names = sorted(entry.name for entry in folder.checkpoints.iterdir())
    assert names == ["step=0001.ckpt", "step=0002.ckpt", "step=0003.ckpt"]


class _Score(Callback):
    """Logs made-up validation scores, by the step that ends."""

    def __init__(self, scores: dict[int, float]) -> None:
        self.scores = scores

    def on_validation_epoch_end(self, trainer, pl_module) -> None:
        step = 0 if trainer.sanity_checking else trainer.current_epoch + 1
        pl_module.log("val/made/up", self.scores[step])


SCORES = {0: 9.0, 1: 0.2, 2: 0.7, 3: float("nan"), 4: 0.7, 5: 0.1, 6: 0.3}


@pytest.mark.parametrize(("mode", "kept", "value"), [("max", [2, 5, 6], 0.7), ("min", [5, 6], 0.1)])
def test_the_best_step_is_kept_beside_the_newest(tmp_path: Path, mode, kept, value) -> None:
    saver = RunCheckpoint(keep_last=2, best_of="val/made/up", best_mode=mode)
    options = {"extra": (_Score(SCORES), saver), "saver": False, "check_val_every_n_epoch": 1}
    trainer = small["run"](tmp_path, steps=6, **options)
    folder = find_run_logger(trainer).folder
    assert folder.checkpoint_steps() == kept
    best = json.loads((folder.checkpoints.parent / "best.json").read_text())
    assert best["metric"] == "val/made/up"
    assert best["value"] == pytest.approx(value)
    assert best["checkpoint"] == f"step={best['step']:04d}.ckpt"


def test_the_best_step_is_saved_off_the_beat_and_known_after_a_resume(tmp_path: Path) -> None:
    def options() -> dict[str, object]:
        saver = RunCheckpoint(every_n_epochs=3, keep_last=1, best_of="val/made/up")
        return {
            "extra": (_Score(SCORES), saver),
            "saver": False,
            "check_val_every_n_epoch": 1,
        }

    trainer = small["run"](tmp_path, steps=3, **options())
    folder = find_run_logger(trainer).folder
    assert folder.checkpoint_steps() == [2, 3]
    folder.summary.unlink()
    small["run"](tmp_path, steps=6, ckpt_path=folder.checkpoint(3), num_sanity_val_steps=0,
                 **options())  # fmt: skip
    assert folder.checkpoint_steps() == [2, 3, 6]  # 3 was resumed from


def test_a_metric_that_nobody_logs_is_named(tmp_path: Path) -> None:
    saver = RunCheckpoint(best_of="val/a/pass@9")
    with pytest.raises(ValueError, match=r"best_of = 'val/a/pass@9' is none of .*val/a/pass@1"):
        small["run"](tmp_path, steps=2, extra=(saver,), saver=False)


class _Draws(Callback):
    """Draws from every global stream in every step."""

    def __init__(self) -> None:
        self.seen: dict[int, tuple[float, float, float]] = {}

    def on_train_epoch_start(self, trainer, pl_module) -> None:
        drawn = (float(torch.rand(())), float(np.random.normal()), random.gauss(0, 1))
        self.seen[trainer.current_epoch + 1] = drawn


def test_global_random_streams_go_on(tmp_path: Path) -> None:
    """Report E5."""
    whole, rest = _Draws(), _Draws()
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    trainer = small["run"](tmp_path, steps=4, extra=(whole,))
    path = find_run_logger(trainer).folder.checkpoint(2)
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    small["run"](tmp_path, steps=4, extra=(rest,), ckpt_path=path, num_sanity_val_steps=0)
    assert rest.seen == {step: whole.seen[step] for step in (3, 4)}
    assert len({*whole.seen.values()}) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every_n_train_steps": 5}, "every_n_train_steps=5.*an RL step is one epoch"),
        ({"train_time_interval": timedelta(minutes=1)}, "train_time_interval"),
        ({"every_n_epochs": 0}, "every_n_epochs=0"),
        ({"keep_last": 0}, "keep_last=0"),
        ({"best_of": "train/loss"}, "best_of must be a metric val/.*'train/loss'"),
        ({"best_mode": "most"}, "best_mode must be max or min, got 'most'"),
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

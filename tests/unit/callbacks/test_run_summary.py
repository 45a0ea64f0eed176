from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import Callback

from callbacks import PassAtK
from callbacks.run_summary import best_lines, last_lines, time_lines, where_line
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def test_the_last_line_and_the_summary_say_the_same(tmp_path: Path, capsys) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=4)).folder
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["val/a/pass@1: 0.0000 -> 1.0000", "val/b/pass@1: 0.0000 -> 1.0000"]
    content = folder.read_summary()
    assert content["val"]["before"]["val/a/pass@1"] == 0.0
    assert content["val"]["after"]["val/a/pass@1"] == 1.0
    assert (content["val"]["after_rl_step"], content["rl_steps"], content["optimiser_steps"]) == (
        4,
        4,
        8,
    )
    assert content["val"]["best"]["val/a/pass@1"] == {"value": 1.0, "rl_step": 4}
    assert content["newest_checkpoint"] == "checkpoints/step=0004.ckpt"
    assert content["finished"] is True


class _Stop(Callback):
    def on_train_epoch_end(self, trainer, pl_module) -> None:
        trainer.should_stop = True


class _Fail(Callback):
    def on_train_epoch_end(self, trainer, pl_module) -> None:
        raise RuntimeError("broken")


def test_a_run_that_was_stopped_early_is_not_finished(tmp_path: Path) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=4, extra=(_Stop(),))).folder
    assert folder.read_summary()["finished"] is False
    assert folder.read_summary()["rl_steps"] == 1
    trainer = small["run"](tmp_path, steps=2, ckpt_path=folder.newest_checkpoint())
    assert find_run_logger(trainer).folder.path == folder.path.resolve()
    assert folder.finished


def test_a_run_that_fails_leaves_no_summary(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="broken"):
        small["run"](tmp_path, steps=2, extra=(_Fail(),))
    assert not RunFolder(path=tmp_path / "small" / "version_0").summary.exists()


def test_max_steps_finishes_a_run_too(tmp_path: Path) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=-1, max_steps=4)).folder
    assert folder.finished
    assert folder.checkpoint_steps() == [1, 2]


def test_a_debug_run_without_folder_still_ends(tmp_path: Path, capsys) -> None:
    small["run"](tmp_path, fast_dev_run=True)
    assert "nan -> " in capsys.readouterr().out.splitlines()[-1]
    assert not (tmp_path / "small").exists()


def test_missing_sides_are_nan() -> None:
    watch = PassAtK()
    assert last_lines(watch) == []
    watch.latest = {"val/a/pass@1": 0.25, "val/a/pass@2": 0.5}
    assert last_lines(watch) == ["val/a/pass@1: nan -> 0.2500"]


def test_where_and_how_long(tmp_path: Path, capsys) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=2)).folder
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "everything" in one]
    assert line.startswith("2 RL steps, this process 0:00:")
    assert line.endswith(f"; everything is in {folder.path}")
    assert where_line(folder, {"rl_steps": 80, "seconds": 3725.4}).startswith(
        "80 RL steps, this process 1:02:05;"
    )


def test_time_is_weighed_by_step(tmp_path: Path) -> None:
    folder = RunFolder(path=tmp_path)
    assert time_lines(folder) == []
    folder.timing.write_text("step,time/sampling_seconds\n1,2.0\n")
    assert time_lines(folder) == []
    names = "other_fraction", "sampling_fraction", "step_seconds", "tokens_per_second"
    head = "step," + ",".join(f"time/{name}" for name in names)
    # One step of 1 s and one of 3 s: 0.5 + 0.75 of 4 s are other; 100 + 60 tokens in 4 s.
    folder.timing.write_text(f"{head}\n1,,,,\n2,0.5,0.5,1.0,100\n3,0.25,0.75,3.0,20\n")
    assert time_lines(folder) == ["time: sampling 69%, other 31%; 2 s a step, 40 tokens/s"]


def test_the_best_is_told_where_it_is_not_the_last() -> None:
    watch = PassAtK()
    watch.best = {"val/a/pass@1": (0.75, 4), "val/a/pass@2": (0.9, 2), "val/b/pass@1": (0.5, 6)}
    watch.latest = {"val/a/pass@1": 0.5, "val/b/pass@1": 0.5}
    assert best_lines(watch) == ["best val/a/pass@1: 0.7500 after RL step 4"]

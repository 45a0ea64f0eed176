from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from callbacks import StepProgressBar
from callbacks.step_progress_bar import progress_line

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def run_with(bar: StepProgressBar, root: Path, **options) -> None:
    trainer = small["make_trainer"](root, **options)
    trainer.callbacks = [bar if isinstance(c, StepProgressBar) else c for c in trainer.callbacks]
    trainer.fit(small["SmallModule"](), datamodule=small["SmallData"]())


def test_a_log_file_gets_a_line_every_few_steps(tmp_path: Path, capsys) -> None:
    run_with(StepProgressBar(lines=3), tmp_path, steps=7)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step")]
    assert [line.split(" |")[0] for line in lines] == [
        "step 1/7",
        "step 3/7",
        "step 6/7",
        "step 7/7",
    ]
    assert "entropy " in lines[-1]
    assert "length 2.25" in lines[-1]
    assert "0:00 left" in lines[-1]


def test_a_terminal_is_redrawn_at_each_step(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    run_with(StepProgressBar(lines=1), tmp_path, steps=3)
    drawn = capsys.readouterr().out.split("\r\x1b[K")[1:]
    assert [line.split(" |")[0] for line in drawn] == ["step 1/3", "step 2/3", "step 3/3"]
    assert "\n" not in drawn[0]


@pytest.mark.parametrize("command", ["validate", "test"])
def test_an_evaluation_counts_its_batches(tmp_path: Path, capsys, monkeypatch, command) -> None:
    def shown(root: Path) -> str:
        trainer = small["make_trainer"](root)
        getattr(trainer, command)(
            small["SmallModule"](), datamodule=small["SmallData"](), verbose=False
        )
        return capsys.readouterr().out

    lines = [
        line for line in shown(tmp_path / "file").splitlines() if line.startswith("evaluating ")
    ]
    assert lines[:4] == [
        "evaluating set 1/2, batch 1/3",
        "evaluating set 1/2, batch 2/3",
        "evaluating set 1/2, batch 3/3",
        "evaluating set 2/2, batch 1/1",
    ]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    drawn = shown(tmp_path / "terminal").split("\r\x1b[K")[1:]
    assert drawn[:2] == ["evaluating set 1/2, batch 1/3", "evaluating set 1/2, batch 2/3"]
    assert drawn[2] == "evaluating set 1/2, batch 3/3\n"


def test_disabled_prints_nothing(tmp_path: Path, capsys) -> None:
    bar = StepProgressBar()
    bar.disable()
    bar.print("hidden")
    bar.enable()
    bar.print("shown")
    assert capsys.readouterr().out == "shown\n"


def test_line_without_a_known_end() -> None:
    assert progress_line(3, None, 1.5, {}) == "step 3 | 1.50 s/step"
    assert progress_line(1, 3, 3600.0, {}) == "step 1/3 | 3600.00 s/step, 2:00:00 left"


def test_lines_is_checked() -> None:
    with pytest.raises(ValueError, match="lines=0"):
        StepProgressBar(lines=0)

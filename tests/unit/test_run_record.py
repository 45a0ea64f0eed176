from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest

from gtpo_lit.metrics_csv import read_metrics, read_rows
from gtpo_lit.plots import figure_of, panels
from gtpo_lit.run_logger import find_run_logger
from gtpo_lit.run_record import read_run

small = runpy.run_path(str(Path(__file__).with_name("small_run.py")))


def test_a_finished_run_has_no_notes(tmp_path: Path) -> None:
    folder = find_run_logger(small["run"](tmp_path, steps=3)).folder
    # The small run logs no reward; everything else is there.
    text = folder.metrics.read_text().replace("train/loss_epoch", "train/reward/mean")
    folder.metrics.write_text(text)
    found = read_run(folder.path)
    assert found.notes == []
    assert found.summary["finished"] is True
    table = read_metrics(folder.path)
    assert found.columns.keys() == table.keys()
    for name, values in table.items():
        assert found.columns[name] == pytest.approx(values, nan_ok=True, rel=0)
    assert found.timing["step"] == [1, 2, 3]


def test_an_empty_folder_is_shown_as_nothing_logged(tmp_path: Path) -> None:
    found = read_run(tmp_path)
    assert found.columns == found.timing == {"step": []}
    assert [note.split(":")[0] for note in found.notes] == [
        "metrics.csv is not there",
        "timing.csv is not there",
        "summary.json is not there",
    ]
    axes = figure_of(panels(found.columns)).axes
    assert [part.texts[0].get_text() for part in axes] == ["not logged"] * 3


def test_half_a_file_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text(
        "step,train/reward/mean\n1,0.5\n2,0.25,7\n\n3,0.125\n4,oops\n5,0.0"
    )
    (tmp_path / "timing.csv").write_text("")
    (tmp_path / "summary.json").write_text('{"finished": tr')
    found = read_run(tmp_path)
    assert found.columns["step"] == [1, 3, 4]
    assert found.columns["train/reward/mean"][:2] == [0.5, 0.125]
    assert math.isnan(found.columns["train/reward/mean"][2])
    notes = "\n".join(found.notes)
    assert "line 3: 3 cells for 2 columns, step '2'; the line is left out." in notes
    assert "the last line was cut short and is left out." in notes
    assert "timing.csv is empty: no times are known." in notes
    assert "summary.json is not readable" in notes
    assert panels(found.columns)[0].lines["train"][1].tolist() == [0.5, 0.125]
    with pytest.warns(UserWarning, match="cut short"), pytest.raises(ValueError, match="line 3"):
        read_rows(tmp_path / "metrics.csv")


def test_another_version_is_named(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,loss\n0,1,0.5\n")
    (tmp_path / "timing.csv").write_text("step,time/a\n")
    found = read_run(tmp_path)
    assert found.columns == {"step": []}
    assert "metrics.csv was not written by this version" in found.notes[0]
    assert "the first column is ['epoch']" in found.notes[0]
    assert found.notes[1] == "timing.csv has no complete row yet: no times are known."


def test_an_older_run_without_some_monitors_is_shown(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("step,train/reward/mean,train/entropy/mean\n1,0.5,2.0\n")
    (tmp_path / "summary.json").write_text('{"finished": false}')
    found = read_run(tmp_path)
    assert found.columns["train/entropy/mean"] == [2.0]
    lacking = "train/entropy/correct, train/entropy/wrong, train/length/mean"
    assert any(f"has no {lacking}: the run is of an older version" in one for one in found.notes)
    assert "The run ended before its last RL step." in found.notes


def test_the_wrong_folder_is_an_error_that_helps(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        read_run(tmp_path / "none")
    for name in ("version_0", "version_1", "other"):
        (tmp_path / name).mkdir()
    with pytest.raises(FileNotFoundError, match="holds version_0, version_1: give one of them"):
        read_run(tmp_path)

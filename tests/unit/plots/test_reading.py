from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest

from gtpo_lit.metrics_csv import read_metrics
from gtpo_lit.plots import comparison_panels, draw_curves, figure_of, panels
from gtpo_lit.plots.reading import columns_of, readable

WHOLE = "step,train/reward/mean\n1,0.5\n2,0.25\n"
BROKEN = "step,train/reward/mean\n1,0.5\n2,0.25,7\n3,0.125\n4,0.0"


def folder(root: Path, name: str, text: str | None) -> Path:
    path = root / name
    path.mkdir()
    if text is not None:
        (path / "metrics.csv").write_text(text)
    return path


def test_a_whole_run_is_read_without_a_word(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = columns_of(folder(tmp_path, "whole", WHOLE))
    assert found == read_metrics(tmp_path / "whole")
    assert columns_of(found) is found
    assert columns_of(tmp_path / "whole" / "metrics.csv") == found


def test_what_can_be_read_of_a_broken_run_is_drawn(tmp_path: Path) -> None:
    path = folder(tmp_path, "broken", BROKEN)
    with pytest.warns(UserWarning, match="left out") as caught:
        assert draw_curves(path) == path / "curves.png"
    assert len(caught) == 2
    with pytest.warns(UserWarning, match="left out"):
        found = columns_of(path)
    assert found["train/reward/mean"] == [0.5, 0.125]


def test_a_comparison_goes_on_without_the_runs_that_say_nothing(tmp_path: Path) -> None:
    runs = [
        folder(tmp_path, "whole", WHOLE),
        folder(tmp_path, "empty", None),
        folder(tmp_path, "begun", "step,train/reward/mean\n"),
        folder(tmp_path, "other", "epoch,loss\n0,1.0\n"),
        tmp_path / "nowhere",
    ]
    with pytest.warns(UserWarning, match="a run is left out") as caught:
        shown = comparison_panels({"GTPO": runs})
    assert len(caught) == 4
    assert shown[0].lines["GTPO"][1].tolist() == [0.5, 0.25]
    with pytest.raises(FileNotFoundError, match="empty is not a run folder"):
        comparison_panels({"GTPO": runs[1:]})
    with pytest.raises(ValueError, match="begun/metrics.csv has no complete row yet"):
        comparison_panels({"GTPO": runs[2:]})
    assert readable([]) == []


def test_every_line_drawn_is_its_csv(tmp_path: Path) -> None:
    """Through the file: panels, and the artists of the figure."""
    text = "step,train/entropy/correct,train/entropy/mean,train/reward/mean,val/a/pass@2\n"
    text += "0,,,,0.125\n1,,1.5,0.1,\n2,0.3333333333333333,1.25,0.2,0.75\n"
    columns = columns_of(folder(tmp_path, "run", text))
    names = [
        {"train": "train/reward/mean"},
        {"mean": "train/entropy/mean", "correct": "train/entropy/correct"},
        {},
        {"k = 2": "val/a/pass@2"},
    ]
    for axes, wanted in zip(figure_of(panels(columns)).axes, names, strict=True):
        drawn = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        assert drawn == {
            label: [
                [step, value]
                for step, value in zip(columns["step"], columns[name], strict=True)
                if math.isfinite(value)
            ]
            for label, name in wanted.items()
        }

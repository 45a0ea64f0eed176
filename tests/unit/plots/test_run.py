from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gtpo_lit.evaluation import entropy_rebound
from gtpo_lit.metrics_csv import MetricsFile
from gtpo_lit.plots import (
    curve,
    draw_curves,
    panels,
    pass_at_k_by_k,
    pass_at_k_curves,
    rebound_marks,
)

NAN = math.nan
COLUMNS = {
    "step": [0, 1, 2],
    "train/reward/mean": [NAN, 0.25, 0.5],
    "train/entropy/mean": [NAN, 1.5, 1.25],
    "train/entropy/correct": [NAN, NAN, 1.0],
    "train/length/mean": [NAN, 10.0, 12.0],
    "val/a/b/pass@8": [0.5, NAN, 1.0],
    "val/a/b/pass@1": [0.125, NAN, 0.75],
    "val/c/pass@1": [0.5, NAN, NAN],
    "val/c/reward/mean": [0.5, NAN, NAN],
}


def as_lists(lines) -> dict:
    return {label: [x.tolist(), y.tolist()] for label, (x, y) in lines.items()}


def test_curve_leaves_out_steps_without_a_value() -> None:
    steps, values = curve(COLUMNS, "val/a/b/pass@1")
    assert steps.tolist() == [0, 2]
    assert values.tolist() == [0.125, 0.75]
    assert curve(COLUMNS, "absent")[0].size == 0
    assert curve({"step": [1, 2], "x": [math.inf, 1.0]}, "x")[0].tolist() == [2]


def test_pass_at_k_by_set_and_k() -> None:
    found = pass_at_k_curves(COLUMNS)
    assert {name: list(by_k) for name, by_k in found.items()} == {"a/b": [1, 8], "c": [1]}
    assert found["a/b"][8][1].tolist() == [0.5, 1.0]
    k, values = pass_at_k_by_k(COLUMNS, "a/b", step=2)
    np.testing.assert_array_equal([k, values], [[1, 8], [0.75, 1.0]])
    assert pass_at_k_by_k(COLUMNS, "c", step=2)[0].size == 0
    assert pass_at_k_by_k(COLUMNS, "none", step=2)[0].size == 0


def test_panels_hold_what_is_drawn() -> None:
    reward, entropy, length, first, second = panels(COLUMNS)
    assert as_lists(reward.lines) == {"train": [[1, 2], [0.25, 0.5]], "c": [[0], [0.5]]}
    assert as_lists(entropy.lines) == {"mean": [[1, 2], [1.5, 1.25]], "correct": [[2], [1.0]]}
    assert as_lists(length.lines) == {"mean": [[1, 2], [10.0, 12.0]]}
    assert (first.title, second.title) == ("Pass@k, a/b", "Pass@k, c")
    assert as_lists(first.lines) == {
        "k = 1": [[0, 2], [0.125, 0.75]],
        "k = 8": [[0, 2], [0.5, 1.0]],
    }


def test_the_picture_is_written_and_repeatable(tmp_path: Path) -> None:
    one = draw_curves(COLUMNS, tmp_path / "one.png")
    two = draw_curves(COLUMNS, tmp_path / "two.png")
    assert one.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert one.read_bytes() == two.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "two.png"]


def test_a_folder_is_drawn_into_itself(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "metrics.csv").update(1, {"train/reward/mean": 0.5})
    assert draw_curves(tmp_path) == tmp_path / "curves.png"


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not a run folder"):
        draw_curves(tmp_path)
    (tmp_path / "metrics.csv").write_text("step,a\n")
    with pytest.raises(ValueError, match="no complete row"):
        draw_curves(tmp_path)
    with pytest.raises(ValueError, match="output=None"):
        draw_curves(COLUMNS)


def test_reading_numbers_loads_no_drawing_library() -> None:
    code = (
        "import sys; from gtpo_lit.plots import panels; panels({'step': []});"
        "sys.exit(any(name.split('.')[0] in {'matplotlib', 'torch'} for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_sure_rebound_is_marked_where_it_is() -> None:
    down, up = np.linspace(1, 0.2, 40), np.linspace(0.2, 0.6, 41)[1:]
    curve_ = [*down.tolist(), *up.tolist()]
    low, top = rebound_marks({"step": list(range(80)), "train/entropy/mean": curve_})
    found = entropy_rebound(range(80), curve_)
    assert (low.x, low.y, low.text) == (found.low_step, found.low, "low")
    assert (top.x, top.y) == (found.top_step, found.top)
    assert top.text.startswith(f"+{found.height:.3g} (")
    falling = {"step": list(range(40)), "train/entropy/mean": down.tolist()}
    assert rebound_marks(falling) == ()
    assert panels(falling)[1].marks == ()

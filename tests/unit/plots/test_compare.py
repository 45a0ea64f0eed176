from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from gtpo_lit.metrics_csv import MetricsFile, read_metrics
from gtpo_lit.plots import comparison_panels, draw_comparison, figure_of, seed_band
from gtpo_lit.plots.compare import common_sets, last_common_step

NAN = math.nan


def columns(reward: list[float], passed: list[float], name: str = "a") -> dict[str, list[float]]:
    return {
        "step": [0, 1, 2],
        "train/reward/mean": [NAN, *reward],
        f"val/{name}/pass@1": passed,
        f"val/{name}/pass@4": [NAN if math.isnan(x) else min(1.0, 2 * x) for x in passed],
    }


TWO = [columns([0.25, 0.5], [0.1, NAN, 0.4]), columns([0.75, 0.5], [0.3, NAN, 0.5])]
ONE = [columns([0.5, 1.0], [0.2, 0.2, 0.25])]


def test_the_interval_of_two_seeds_by_hand() -> None:
    """Mean 0.5; standard error of 0.25 and 0.75 is 0.25; Student's 97.5 % point is 12.706."""
    at = np.array([1.0])
    band = seed_band([(at, np.array([0.25])), (at, np.array([0.75]))])
    assert band.mean.tolist() == [0.5]
    assert band.low[0] == pytest.approx(0.5 - 12.706 * 0.25)
    assert band.high[0] == pytest.approx(0.5 + 12.706 * 0.25)


def test_seeds_are_compared_where_all_have_a_value() -> None:
    first = (np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]))
    second = (np.array([2.0, 3.0, 4.0]), np.array([4.0, 9.0, 5.0]))
    band = seed_band([first, second])
    assert (band.x.tolist(), band.mean.tolist()) == ([2.0, 4.0], [3.0, 4.0])
    alone = seed_band([first])
    assert alone.mean.tolist() == [1.0, 2.0, 3.0]
    assert np.isnan(alone.low).all()
    assert np.isnan(alone.high).all()
    with pytest.raises(ValueError, match="needs a curve"):
        seed_band([])


def test_panels_of_two_methods() -> None:
    reward, *rest, over_steps, over_k = comparison_panels({"GTPO": TWO, "DAPO": ONE})
    assert list(reward.lines) == ["GTPO, 2 seeds", "DAPO"]
    assert list(reward.bands) == ["GTPO, 2 seeds"]
    assert reward.lines["GTPO, 2 seeds"][1].tolist() == [0.5, 0.5]
    assert reward.lines["DAPO"][1].tolist() == [0.5, 1.0]
    assert all(panel.lines == {} for panel in rest), "nothing else was logged"
    assert over_steps.lines["GTPO, 2 seeds"][0].tolist() == [0, 2]
    assert over_steps.lines["GTPO, 2 seeds"][1] == pytest.approx([0.2, 0.45])
    assert over_k.title == "Pass@k, a, after RL step 2"
    k, values = over_k.lines["GTPO, 2 seeds"]
    assert (k.tolist(), over_k.log_x) == ([1, 4], True)
    assert values == pytest.approx([0.45, 0.9])
    assert over_k.lines["DAPO"][1] == pytest.approx([0.25, 0.5])


def test_sets_and_steps_that_all_runs_have() -> None:
    other = [columns([0.5, 1.0], [0.2, 0.2, NAN], name="b")]
    assert common_sets({"x": TWO, "y": ONE}) == ["a"]
    assert common_sets({"x": TWO, "y": other}) == []
    assert last_common_step({"x": TWO, "y": ONE}, "a") == 2
    with pytest.raises(ValueError, match="validation on 'a' in every run"):
        last_common_step({"x": [columns([0.5, 1], [NAN, 0.1, NAN])], "y": TWO}, "a")
    with pytest.raises(ValueError, match="every method needs a run"):
        comparison_panels({"GTPO": TWO, "DAPO": []})


def test_runs_without_a_curve_are_left_out_by_name() -> None:
    evaluated = {"step": [0], "test/a/pass@1": [0.5]}
    with pytest.warns(UserWarning, match=r"DAPO: 1 run\(s\) hold no curve"):
        panels = comparison_panels({"GTPO": TWO, "DAPO": [*ONE, evaluated]})
    assert [panel.title for panel in panels] == [
        panel.title for panel in comparison_panels({"GTPO": TWO, "DAPO": ONE})
    ]
    with (
        pytest.warns(UserWarning, match="DAPO"),
        pytest.raises(ValueError, match="every method needs a run with curves, got .*'DAPO': 0"),
    ):
        comparison_panels({"GTPO": TWO, "DAPO": [evaluated]})


def test_the_numbers_drawn_are_those_of_the_files(tmp_path: Path) -> None:
    runs = {}
    for name, seeds in {"GTPO": TWO, "GRPO-S": ONE}.items():
        for number, run in enumerate(seeds):
            folder = tmp_path / f"{name}-{number}"
            folder.mkdir()
            file = MetricsFile(folder / "metrics.csv")
            for at, step in enumerate(run["step"]):
                row = {metric: run[metric][at] for metric in run if metric != "step"}
                file.update(int(step), {k: v for k, v in row.items() if not math.isnan(v)})
            runs.setdefault(name, []).append(folder)
    figure = figure_of(comparison_panels(runs))
    # A notebook asks the figure itself for a picture.
    width, height = figure.get_size_inches() * figure.dpi
    png = figure._repr_png_()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    sides = (int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big"))
    assert sides == (round(width), round(height))
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    written = [read_metrics(folder)["train/reward/mean"][1:] for folder in runs["GTPO"]]
    wanted = np.mean(written, axis=0)
    assert drawn["GTPO, 2 seeds"].get_ydata().tolist() == wanted.tolist()
    assert drawn["GTPO, 2 seeds"].get_xdata().tolist() == [1, 2]
    assert drawn["GTPO, 2 seeds"].get_color() == "#D55E00"
    assert drawn["GRPO-S"].get_ydata().tolist() == [0.5, 1.0]
    (shade,) = figure.axes[0].collections
    assert shade.get_paths()[0].get_extents().ymax == pytest.approx(0.5 + 12.706 * 0.25)
    picture = draw_comparison(runs, tmp_path / "all.png")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(FileNotFoundError, match="is not a run folder"):
        comparison_panels({"GTPO": [tmp_path]})

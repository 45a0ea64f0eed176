from __future__ import annotations

import csv
import json

from gtpo_lit.evaluation import Interval, SetSummary, report_text, write_report

FIRST = SetSummary(
    problems=30,
    samples=32,
    values={"pass@1": 1 / 3, "diversity/distinct_2": 0.25},
    intervals={"pass@1": Interval(low=0.2, high=0.5)},
)
EMPTY = SetSummary(problems=0, samples=0, values={})


def test_the_files_read_back_to_the_last_digit(tmp_path) -> None:
    folder = tmp_path / "new" / "evaluation"
    write_report(folder, "val", {"val/a": FIRST, "val/b": EMPTY}, {"rl_step": 4})
    rows = list(csv.DictReader((folder / "val.csv").read_text().splitlines()))
    assert [(row["set"], row["metric"]) for row in rows] == [
        ("val/a", "pass@1"),
        ("val/a", "diversity/distinct_2"),
    ]
    assert float(rows[0]["value"]) == 1 / 3
    assert (rows[0]["low"], rows[0]["high"], rows[1]["low"]) == ("0.2", "0.5", "")
    assert (rows[0]["problems"], rows[0]["samples"]) == ("30", "32")
    content = json.loads((folder / "val.json").read_text())
    assert (content["rl_step"], content["interval_level"]) == (4, 0.95)
    assert content["sets"]["val/a"]["figures"] == {
        "pass@1": {"value": 1 / 3, "low": 0.2, "high": 0.5},
        "diversity/distinct_2": {"value": 0.25},
    }
    assert content["sets"]["val/b"] == {"problems": 0, "samples": 0, "figures": {}}


def test_a_set_without_figures_is_a_heading() -> None:
    assert report_text("val/b", EMPTY).splitlines()[0] == "Set val/b: 0 problems x 0 samples"

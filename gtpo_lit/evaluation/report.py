"""The figures of several sets as a table on the screen, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtpo_lit.evaluation.interval import LEVEL
from gtpo_lit.evaluation.set_summary import SetSummary
from gtpo_lit.metrics_csv import write_atomically

COLUMNS = ("set", "metric", "value", "low", "high", "problems", "samples")


def report_text(name: str, summary: SetSummary) -> str:
    """One set as a table, a line a figure.

    >>> from gtpo_lit.evaluation import Interval
    >>> ends = {"pass@1": Interval(low=0.25, high=0.75)}
    >>> values = {"pass@1": 0.5, "length/mean": 12.25}
    >>> print(report_text("a", SetSummary(problems=2, samples=4, values=values, intervals=ends)))
    Set a: 2 problems x 4 samples
      figure         value    95 % interval
      pass@1        0.5000  0.2500   0.7500
      length/mean  12.2500       -        -
    """
    rows = [("figure", "value", f"{100 * LEVEL:.0f} % interval", "")]
    for metric, value in summary.values.items():
        ends = summary.intervals.get(metric)
        shown = ("-", "-") if ends is None else (f"{ends.low:.4f}", f"{ends.high:.4f}")
        rows.append((metric, f"{value:.4f}", *shown))
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    third, fourth = (max(len(row[column]) for row in rows[1:] or rows) for column in (2, 3))
    span = max(third + fourth + 2, len(rows[0][2]) + 2)
    lines = [f"Set {name}: {summary.problems} problems x {summary.samples} samples"]
    for metric, shown_value, low, high in rows:
        interval = low.rjust(span) if not high else low.rjust(third) + high.rjust(span - third)
        lines.append(f"  {metric.ljust(first)}  {shown_value.rjust(second)}  {interval}")
    return "\n".join(lines)


def report_csv(summaries: Mapping[str, SetSummary]) -> str:
    """All sets as CSV, a row a figure; floats as Python writes them, so that they read back."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for name, summary in summaries.items():
        for metric, value in summary.values.items():
            ends = summary.intervals.get(metric)
            low, high = ("", "") if ends is None else (ends.low, ends.high)
            table.writerow((name, metric, value, low, high, summary.problems, summary.samples))
    return text.getvalue()


def report_json(summaries: Mapping[str, SetSummary], about: Mapping[str, Any]) -> dict[str, Any]:
    """All sets as one object, under the keys of `about`."""
    sets = {}
    for name, summary in summaries.items():
        figures: dict[str, dict[str, float]] = {}
        for metric, value in summary.values.items():
            figures[metric] = {"value": value}
            if (ends := summary.intervals.get(metric)) is not None:
                figures[metric] |= {"low": ends.low, "high": ends.high}
        sets[name] = {
            "problems": summary.problems,
            "samples": summary.samples,
            "figures": figures,
        }
    return {**about, "interval_level": LEVEL, "sets": sets}


def write_report(
    folder: Path, stem: str, summaries: Mapping[str, SetSummary], about: Mapping[str, Any]
) -> None:
    """Write `<stem>.csv` and `<stem>.json` into `folder`, each as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{stem}.csv", report_csv(summaries))
    content = json.dumps(report_json(summaries, about), indent=2, allow_nan=False)
    write_atomically(folder / f"{stem}.json", content + "\n")

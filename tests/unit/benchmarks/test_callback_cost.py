"""The benchmark of the callbacks: its arithmetic by hand, and a tiny run of it."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def cost(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import callback_cost

    return callback_cost


def test_variants_take_turns_in_coming_first(cost):
    watched = cost.Switch([], block=2)
    variants = [watched.variant(step) for step in range(10)]
    assert variants == ["none"] * 2 + ["all"] * 4 + ["none"] * 4


def test_costs_leave_the_warm_up_out_and_compare_with_none(cost):
    watched = cost.Switch([], block=2)
    watched.found = [
        (0, "none", 99.0, 9.0, {}),
        (1, "all", 99.0, 9.0, {"A": 90.0}),
        (2, "all", 4.4, 4.0, {"A": 0.2, "B": 0.1}),
        (3, "none", 4.0, 4.0, {}),
        (4, "none", 2.0, 2.0, {}),
        (5, "all", 2.1, 2.0, {"A": 0.1, "B": 0.1}),
    ]
    found = cost.measurements(watched, 2)
    assert [(one.round, one.variant, one.seconds) for one in found] == [
        (1, "none", 2.0),
        (2, "none", 1.0),
        (1, "all", 2.2),
        (2, "all", 1.05),
    ]
    assert cost.table(found).splitlines()[-1] == (
        "| step | all | 2 | 1.6250 | +7.50 | +6.25 to +8.75 |"
    )
    # 6.5 s with callbacks, of which 0.5 s within hooks.
    assert cost.within_percent(watched) == {"A": pytest.approx(5.0), "B": pytest.approx(10 / 3)}


def test_a_tiny_run_does_the_same_work_with_and_without(cost, tmp_path):
    output = tmp_path / "cost.csv"
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    arguments = {"tokens": 6, "problems": 2, "group_size": 4, "block": 1, "pairs": 2}
    arguments |= {"core": core, "output": output}
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.callback_cost"]
        + [f"--{name}={value}" for name, value in arguments.items()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = list(csv.DictReader(output.read_text().splitlines()))
    assert [(row["round"], row["variant"]) for row in rows] == [
        *[("1", "none"), ("2", "none")],
        *[("1", "all"), ("2", "all")],
    ]
    assert all(float(row["seconds"]) > 0 for row in rows)
    names = {type(one).__name__ for one in cost.all_callbacks(1)}
    assert set(re.findall(r"(\w+) \d+\.\d\d", shown.split("(", 1)[1])) >= names
    assert shown.splitlines()[1].startswith("| what | variant")

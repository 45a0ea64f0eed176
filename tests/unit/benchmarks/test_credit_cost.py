"""The benchmark's arithmetic by hand, and a tiny run of it."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STEPS = [
    "DAPO, no entropies",
    "GTPO, recomputed",
    "GRPO-S, recomputed",
    "GTPO, of the sampler",
    "GRPO-S, of the sampler",
]


@pytest.fixture
def paired(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import paired

    return paired


def test_costs_are_medians_of_ratios_within_a_round(paired):
    seconds = {"plain": (1.0, 2.0, 4.0), "shaped": (1.1, 2.0, 5.0)}
    found = [
        paired.Measurement("step", number, name, values[number], 0.0)
        for number in (1, 0, 2)
        for name, values in seconds.items()
    ]
    assert paired.table(found).splitlines()[2:] == [
        "| step | plain | 3 | 2.0000 | - | - |",
        "| step | shaped | 3 | 2.0000 | +10.00 | +5.00 to +17.50 |",
    ]
    with pytest.raises(ValueError, match=r"step: round 2 lacks \['shaped'\]"):
        paired.seconds_of(found[:-1], "step")


def test_a_tiny_run_measures_every_variant_in_every_round(paired, tmp_path):
    output = tmp_path / "cost.csv"
    core = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    arguments = {"policy": "embedded:chains", "tokens": 6, "group_size": 4, "pairs": 2}
    arguments |= {"sampling_pairs": 1, "core": core, "output": output}
    shown = subprocess.run(
        [sys.executable, "-m", "benchmarks.credit_cost"]
        + [f"--{name}={value}" for name, value in arguments.items()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = list(csv.DictReader(output.read_text().splitlines()))
    credits = ["DAPO", "GTPO", "GRPO-S"]
    wanted = [("step", str(n), name) for n in (1, 2) for name in STEPS]
    wanted += [("credit alone", str(n), name) for n in (1, 2) for name in credits]
    wanted += [("sampling", "1", name) for name in ("log-probs alone", "and entropies")]
    assert sorted((r["part"], r["round"], r["variant"]) for r in rows) == sorted(wanted)
    # Credit is a part of a step, and no clock is that coarse.
    fastest = {part: min(float(r["seconds"]) for r in rows if r["part"] == part)
               for part in ("step", "credit alone")}  # fmt: skip
    assert 0 < fastest["credit alone"] < fastest["step"]
    assert "8 sequences" in shown
    found = [
        paired.Measurement(r["part"], int(r["round"]), r["variant"], float(r["seconds"]), 0.0)
        for r in rows
    ]
    assert f"{paired.table(found)}\nThe process had its core for" in shown

"""Rewards of a run, from YAML to the metrics: several terms, failures, alarms."""

import csv
import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

SCORERS = """
import time

def odd(completion):
    return sum(map(int, filter(str.isdigit, completion))) % 2

def picky(completion, answer):
    if odd(completion):
        raise KeyError("odd sum of digits")
    return 0.25

def slow(completion, answer):
    if odd(completion):
        time.sleep(600)
    return 0.25
"""


def _rewards(*others):
    math = {
        "name": "math",
        "accuracy": True,
        "reward": {
            "class_path": "gtpo_lit.tasks.MathReward",
            "init_args": {"boxed_required": False},
        },
    }
    return {"data": {"reward": None, "rewards": [math, *others]}}


def _function(name, **options):
    reward = {
        "class_path": "gtpo_lit.tasks.FunctionReward",
        "init_args": {"function": f"scorers:{name}", **options},
    }
    return {"name": name, "weight": 0.5, "reward": reward}


@pytest.fixture
def scorers(tmp_path, monkeypatch):
    (tmp_path / "scorers.py").write_text(SCORERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)


def _overlay(folder, content):
    path = folder / "rewards.yaml"
    path.write_text(yaml.safe_dump(content))
    return f"--config={path}"


def test_terms_are_weighed_and_failures_counted(runs, tmp_path, scorers, recwarn):
    runs(_overlay(tmp_path, _rewards(_function("picky"))), "--trainer.max_epochs=1")
    row = runs.rows()[1]
    math, picky = (float(row[f"train/reward/{name}/mean"]) for name in ("math", "picky"))
    errors = int(float(row["train/reward/picky/errors"]))
    assert 0 < math < 1, "the embedded policy is right now and then"
    assert 0 < errors < 16
    assert picky == pytest.approx(0.25 * (16 - errors) / 16)
    assert float(row["train/reward/mean"]) == pytest.approx(math + 0.5 * picky, abs=1e-6)
    assert float(row["train/reward/picky/timeouts"]) == 0
    assert float(row["val/chains/reward/math/mean"]) == pytest.approx(
        float(row["val/chains/pass@1"]), abs=1e-6
    )
    assert 0 < float(row["val/chains/reward/picky/errors"]) <= 16
    shown = "".join(str(warning.message) for warning in recwarn)
    assert shown.count("KeyError: 'odd sum of digits'") == 1, "the traceback, once"


def test_a_failing_function_ends_the_run_when_asked(runs, tmp_path, scorers):
    overlay = _overlay(tmp_path, _rewards(_function("picky", on_error="stop")))
    with pytest.raises(Exception, match="odd sum of digits"):
        runs(overlay, "--trainer.max_epochs=1")


def test_answers_that_hang_cost_their_limit_and_are_counted(runs, tmp_path, scorers):
    limits = {"seconds": 0.3, "memory_mb": 256}
    overlay = _overlay(tmp_path, _rewards(_function("slow", limits=limits)))
    runs(overlay, "--trainer.max_epochs=1", "--trainer.num_sanity_val_steps=0")
    row = runs.rows()[0]
    timeouts = int(float(row["train/reward/slow/timeouts"]))
    assert 0 < timeouts < 16
    assert float(row["train/reward/slow/mean"]) == pytest.approx(0.25 * (16 - timeouts) / 16)
    assert float(row["val/chains/reward/slow/timeouts"]) > 0


def test_a_reward_that_never_varies_raises_an_alarm(runs):
    """No response of the embedded policy has a box."""
    boxed = str(ROOT / "configs/reward/math_boxed.yaml")
    with pytest.warns(
        UserWarning, match="'accuracy' has been 0 for every completion of the last 2"
    ):
        runs(f"--config={boxed}", "--data.constant_reward_steps=2")
    assert float(runs.rows()[2]["train/reward/accuracy/constant_steps"]) == 2
    assert float(runs.rows()[2]["train/reward/mean"]) == 0


def test_an_evaluation_tells_terms_and_failures_in_its_files(runs, tmp_path, scorers):
    overlay = _overlay(tmp_path, _rewards(_function("picky")))
    runs(overlay, command="validate")
    (report,) = runs.root.rglob("val.json")
    figures = json.loads(report.read_text())["sets"]["val/chains"]["figures"]
    assert figures["reward/picky/errors"]["value"] > 0
    assert figures["reward/math/mean"]["value"] == figures["pass@1"]["value"]
    with report.with_suffix(".csv").open() as file:
        rows = {row["metric"]: row for row in csv.DictReader(file)}
    assert float(rows["reward/picky/errors"]["value"]) == figures["reward/picky/errors"]["value"]
    assert rows["reward/picky/errors"]["low"] == ""

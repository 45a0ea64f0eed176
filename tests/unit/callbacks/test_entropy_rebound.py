from __future__ import annotations

import json
import math
import runpy
import warnings
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import Callback

from callbacks import EntropyCollapseError, EntropyRebound
from callbacks.entropy_rebound import as_json, verdict
from gtpo_lit.evaluation import entropy_rebound
from gtpo_lit.metrics_csv import read_metrics
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def run(root: Path, **options):
    """The small run with the callback; its entropies are about 4 nats."""
    extra = options.pop("extra", (EntropyRebound(),))
    return find_run_logger(small["run"](root, extra=extra, **options)).folder


def test_numbers_of_a_made_curve() -> None:
    watch = EntropyRebound(window=2)
    logged = [watch.update(step, value) for step, value in ((1, 4.0), (2, 2.0), (3, 1.0), (5, 3.0))]
    assert [row["train/entropy/smoothed"] for row in logged] == [4.0, 3.0, 1.5, 2.0]
    assert [row["train/entropy/low"] for row in logged] == [4.0, 3.0, 1.5, 1.5]
    assert [row["train/entropy/low_step"] for row in logged] == [1, 2, 3, 3]
    assert [row["train/entropy/rebound"] for row in logged] == [0.0, 0.0, 0.0, 0.5]


def test_the_alarm_needs_patience_and_a_low_mean() -> None:
    watch = EntropyRebound(window=1, collapse=0.1, patience=3)
    alarms = []
    for step, value in enumerate([0.05, 0.05, 0.2, 0.05, 0.05, 0.05, 0.05], start=1):
        watch.update(step, value)
        alarms.append(watch.collapsed)
    assert alarms == [False] * 5 + [True, True]
    never = EntropyRebound(window=1, collapse=None, patience=1)
    never.update(1, 0.0)
    assert not never.collapsed


def test_columns_equal_what_the_entropies_give(tmp_path: Path) -> None:
    table = read_metrics(run(tmp_path, steps=9).path)
    watch = EntropyRebound()
    for step, value in zip(table["step"][1:], table["train/entropy/mean"][1:], strict=True):
        for name, wanted in watch.update(step, value).items():
            assert table[name][table["step"].index(step)] == wanted


def test_the_verdict_is_printed_and_kept(tmp_path: Path, capsys) -> None:
    folder = run(tmp_path, steps=9)
    table = read_metrics(folder.path)
    found = entropy_rebound(table["step"][1:], table["train/entropy/mean"][1:])
    content = json.loads((folder.path / "entropy_rebound.json").read_text())
    assert content == as_json(found)
    assert (content["low_step"], content["height"]) == (found.low_step, found.height)
    assert verdict(found) in capsys.readouterr().out.splitlines()


def test_a_short_run_is_not_judged(tmp_path: Path, capsys) -> None:
    folder = run(tmp_path, steps=4)
    assert not (folder.path / "entropy_rebound.json").exists()
    assert "nats at RL step" not in capsys.readouterr().out


def test_nothing_breaks_without_a_logger(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    small["run"](tmp_path, steps=9, extra=(EntropyRebound(),), logger=False)
    assert "nats at RL step" in capsys.readouterr().out
    assert not (tmp_path / "small").exists()


def test_a_resumed_run_ends_as_the_unbroken_one(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", steps=9)
    first = run(tmp_path / "parts", steps=5, extra=(EntropyRebound(), _Stop(5)))
    second = run(tmp_path / "parts", steps=9, ckpt_path=first.newest_checkpoint())
    assert second.metrics.read_bytes() == whole.metrics.read_bytes()
    for name in ("entropy_rebound.json", "metrics.csv"):
        assert (second.path / name).read_bytes() == (whole.path / name).read_bytes()


class _Stop(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_epoch_end(self, trainer, pl_module) -> None:
        trainer.should_stop = trainer.current_epoch + 1 == self.step


def test_collapse_is_said_once_even_after_a_resume(tmp_path: Path) -> None:
    def warned(**options) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            watch = EntropyRebound(window=1, collapse=50.0, patience=2)
            folders.append(run(tmp_path, extra=(watch, _Stop(options.pop("stop"))), **options))
        return [str(one.message) for one in caught if "collapsed" in str(one.message)]

    folders: list = []
    (message,) = warned(steps=6, stop=4)
    assert "below 50 nats for 2 RL steps" in message
    assert "(RL step 2)" in message
    assert warned(steps=6, stop=6, ckpt_path=folders[0].newest_checkpoint()) == []


def test_a_run_is_stopped_on_collapse_if_asked(tmp_path: Path) -> None:
    watch = EntropyRebound(window=1, collapse=50.0, patience=3, on_collapse="stop")
    with pytest.raises(EntropyCollapseError, match=r"RL step 3"):
        run(tmp_path, steps=6, extra=(watch,))
    assert watch.steps == [1, 2, 3]


def test_the_verdict_of_a_rebound_and_of_none() -> None:
    up = [1.0 - 0.05 * i for i in range(16)] + [0.25 + 0.02 * i for i in range(24)]
    found = entropy_rebound(range(40), up, window=3)
    assert verdict(found).startswith("entropy 0.975 -> 0.2567 nats at RL step 16, then up by 0.44")
    level = entropy_rebound(range(20), [1.0] * 20)
    assert "no rebound beyond noise" in verdict(level)
    assert as_json(level)["share"] is None
    assert math.isnan(level.share)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": 0}, "window .* got 0"),
        ({"patience": 0}, "patience .* got 0"),
        ({"collapse": 0.0}, "collapse .* got 0.0"),
        ({"collapse": math.inf}, "collapse .* got inf"),
        ({"on_collapse": "ignore"}, "on_collapse .* got ignore"),
    ],
)
def test_options_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        EntropyRebound(**options)

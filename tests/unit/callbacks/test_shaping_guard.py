"""The guard's verdicts on made numbers; tests/integration/test_shaping_guard.py stops real runs."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from callbacks import ShapingError, ShapingGuard
from callbacks.shaping_guard import COULD, DID, GAP

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))

FINE = {GAP: 2e-7, COULD: 0.5, DID: 0.4}
NOTHING = FINE | {DID: 0.0}
COULD_NOT = FINE | {COULD: 0.0, DID: 0.0}


def trainer_with(metrics, *, epoch=0, zero=True, broadcast=lambda value: value):
    return SimpleNamespace(
        datamodule=SimpleNamespace(step_metrics=metrics),
        strategy=SimpleNamespace(broadcast=broadcast),
        is_global_zero=zero,
        current_epoch=epoch,
        checkpoint_callback=SimpleNamespace(last_saved="runs/x/checkpoints/step=0006.ckpt"),
        ckpt_path=None,
    )


def look(guard, trainer, batch_idx=0):
    guard.on_train_batch_start(trainer, SimpleNamespace(algorithm=guard), None, batch_idx)


@pytest.mark.parametrize("gap", [0.0, 1e-4, 2e-7])
def test_a_gap_within_the_tolerance_passes(gap):
    assert ShapingGuard().judge(FINE | {GAP: gap}) is None


@pytest.mark.parametrize("gap", [1.0001e-4, 0.5, math.inf, math.nan])
def test_a_gap_above_it_or_nan_stops_at_once_and_says_where_and_what(gap):
    trainer = trainer_with(FINE | {GAP: gap, "train/groups/all_wrong_fraction": 0.25}, epoch=6)
    with pytest.raises(ShapingError) as stopped:
        look(ShapingGuard(), trainer)
    message = str(stopped.value)
    assert message.startswith(f"in RL step 7, {GAP} is {gap:.6g}, not within the tolerance 0.0001")
    assert "Look at" in message
    assert "last checkpoint: runs/x/checkpoints/step=0006.ckpt" in message
    assert "train/groups/all_wrong_fraction = 0.25" in message


def test_the_tolerance_is_an_option():
    assert ShapingGuard(tolerance=0.5).judge(FINE | {GAP: 0.4}) is None
    assert "tolerance 1e-08" in ShapingGuard(tolerance=1e-8).judge(FINE)


def test_shaping_nothing_stops_after_so_many_steps_in_a_row():
    guard = ShapingGuard(patience=3)
    assert [guard.judge(NOTHING) for _ in range(2)] == [None, None]
    complaint = guard.judge(NOTHING)
    assert f"{DID} was 0 for 3 RL steps in a row (patience 3) although {COULD} is 0.5" in complaint
    assert "train/entropy" in complaint


@pytest.mark.parametrize("between", [FINE, COULD_NOT], ids=["shaped", "could not shape"])
def test_a_step_that_shaped_or_could_not_ends_the_row(between):
    guard = ShapingGuard(patience=2)
    seen = []
    for numbers in (NOTHING, between, NOTHING, between, NOTHING, NOTHING):
        seen.append((guard.judge(numbers) is None, guard.streak))
    assert seen == [(True, 1), (True, 0), (True, 1), (True, 0), (True, 1), (False, 2)]


def test_steps_that_could_never_shape_or_no_patience_never_stop():
    assert [ShapingGuard(patience=1).judge(COULD_NOT) for _ in range(9)] == [None] * 9
    guard = ShapingGuard(patience=None)
    assert [guard.judge(NOTHING) for _ in range(9)] == [None] * 9
    assert guard.streak == 9


def test_the_row_goes_on_where_the_state_was_saved():
    first = ShapingGuard(patience=3)
    first.judge(NOTHING)
    first.judge(NOTHING)
    assert first.state_dict() == {"streak": 2}
    second = ShapingGuard(patience=3)
    second.load_state_dict(first.state_dict())
    assert second.judge(NOTHING) is not None


def test_a_step_counts_once_whatever_its_micro_batches():
    guard, trainer = ShapingGuard(patience=2), trainer_with(NOTHING)
    for batch_idx in range(5):
        look(guard, trainer, batch_idx)
    assert guard.streak == 1


def test_every_rank_judges_the_numbers_of_rank_zero():
    for own, sent in ((FINE, FINE | {GAP: 1.0}), (FINE | {GAP: 1.0}, FINE)):
        trainer = trainer_with(own, zero=False, broadcast=lambda value, sent=sent: sent)
        if sent[GAP] == 1.0:
            with pytest.raises(ShapingError, match="gap is 1,"):
                look(ShapingGuard(), trainer)
        else:
            look(ShapingGuard(), trainer)


@pytest.mark.parametrize("zero", [True, False])
def test_without_shaping_metrics_it_says_so_once_on_rank_zero(capsys, zero):
    guard = ShapingGuard(patience=1)
    for epoch in range(3):
        look(guard, trainer_with({"train/reward/mean": 0.5}, epoch=epoch, zero=zero))
    said = f"ShapingGuard: ShapingGuard logs no {GAP}, so there is nothing to guard\n"
    assert capsys.readouterr().out == (said if zero else "")
    assert guard.streak == 0


def test_an_algorithm_that_logs_the_gap_alone_is_held_to_it():
    guard = ShapingGuard(patience=1)
    assert guard.judge({GAP: 0.0}) is None
    assert guard.judge({GAP: 1.0}) is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerance": 0.0}, r"tolerance .* got 0\.0"),
        ({"tolerance": -1.0}, r"tolerance .* got -1"),
        ({"tolerance": math.nan}, "tolerance .* got nan"),
        ({"tolerance": math.inf}, "tolerance .* got inf"),
        ({"patience": 0}, "patience .* got 0"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        ShapingGuard(**options)


def test_a_datamodule_without_step_metrics_is_named_before_training(tmp_path):
    with pytest.raises(ValueError, match=r"ShapingGuard reads .*step_metrics, which is NoneType"):
        small["run"](tmp_path, extra=(ShapingGuard(),))

"""What SIGTERM does to a run: it ends at once or after the step, with a code of its own."""

import os
import signal
import time
from types import SimpleNamespace

import pytest

from gtpo_lit.preemption import PREEMPTED, Preempted, Preemption
from gtpo_lit.run_checkpoint import RunCheckpoint


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


def trainer(saver=None, **values):
    found = {
        "world_size": 1,
        "current_epoch": 4,
        "ckpt_path": None,
        "checkpoint_callback": SimpleNamespace(last_saved="runs/a/step=0004.ckpt"),
        "checkpoint_callbacks": [saver] if saver else [],
    }
    return SimpleNamespace(**(found | values))


@pytest.fixture
def handler():
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def started(monkeypatch, grace, steps=(10.0, 20.0)):
    """A run that made `steps` of so many seconds, and is 5 s into the next one."""
    clock, callback = Clock(monkeypatch), Preemption(grace)
    callback.setup(trainer(), None, "fit")
    for seconds in steps:
        callback.on_train_epoch_start(trainer(), None)
        clock.now += seconds
    callback.on_train_epoch_start(trainer(), None)
    clock.now += 5.0
    return callback


def test_the_rest_is_the_longest_recent_step_less_what_has_passed(monkeypatch, handler):
    assert started(monkeypatch, 0.0).seconds_left() == 15.0
    assert started(monkeypatch, 0.0, (90.0, 10.0, 12.0, 11.0)).seconds_left() == 7.0
    assert started(monkeypatch, 0.0, (3.0,)).seconds_left() == 0.0
    assert Preemption().seconds_left() is None


def test_what_does_not_fit_stops_at_once_naming_the_checkpoint(monkeypatch, handler, capsys):
    started(monkeypatch, 14.0)
    with pytest.raises(Preempted) as ended:
        os.kill(os.getpid(), signal.SIGTERM)
    assert ended.value.code == PREEMPTED == 75
    said = capsys.readouterr().err
    assert "SIGTERM: the run stops at once in RL step 5" in said
    assert "last complete checkpoint: runs/a/step=0004.ckpt" in said


def test_nothing_is_known_in_the_first_step(monkeypatch, handler):
    started(monkeypatch, 1000.0, ())
    with pytest.raises(Preempted):
        os.kill(os.getpid(), signal.SIGTERM)


def test_what_fits_is_finished_and_saved(monkeypatch, handler, capsys):
    callback, saver = started(monkeypatch, 15.0), RunCheckpoint(every_n_epochs=10)
    callback.on_train_epoch_end(trainer(saver), None)
    assert not saver.save_this_step
    os.kill(os.getpid(), signal.SIGTERM)
    assert "RL step 5 ends in about 15 s, within run.grace_seconds = 15" in capsys.readouterr().err
    callback.on_train_epoch_end(trainer(saver), None)
    assert saver.save_this_step
    with pytest.raises(Preempted):
        callback.on_train_epoch_start(trainer(), None)


def test_a_signal_to_another_rank_ends_this_one_after_the_step(monkeypatch, handler):
    callback, asked = started(monkeypatch, 15.0), []

    def decide(mine, all):
        asked.append((mine, all))
        return True

    several = trainer(world_size=2, strategy=SimpleNamespace(reduce_boolean_decision=decide))
    with pytest.raises(Preempted):
        callback.on_train_epoch_start(several, None)
    assert asked == [(False, False)]

"""SIGTERM ends a run at once or after its step, and what is saved is said."""

import os
import runpy
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.pytorch.callbacks import Callback

from gtpo_lit import stop_notice
from gtpo_lit.metrics_csv import read_rows
from gtpo_lit.preemption import NoSignals, Preempted, Preemption
from gtpo_lit.run_folder import RunFolder

small = runpy.run_path(str(Path(__file__).with_name("small_run.py")))


@pytest.fixture
def make(monkeypatch):
    """Makes the callback, and gives SIGTERM back whatever happens."""
    made = []
    monkeypatch.setattr(stop_notice, "_end_hard", lambda: None)

    def make(grace=0.0):
        made.append(Preemption(grace))
        return made[-1]

    before = signal.getsignal(signal.SIGTERM)
    yield make
    for one in made:
        if one.notice is not None:
            one.notice.close()
    assert signal.getsignal(signal.SIGTERM) == before


class Signal(Callback):
    """Sends SIGTERM to this process in a hook of an RL step."""

    def __init__(self, step: int, hook: str = "on_train_batch_end", times: int = 1) -> None:
        self.step, self.hook, self.times = step, hook, times

    def _send(self, hook, trainer) -> None:
        if hook == self.hook and trainer.current_epoch + 1 == self.step:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGTERM)
            self.times = 0

    def on_train_batch_end(self, trainer, *args) -> None:
        self._send("on_train_batch_end", trainer)

    def on_validation_start(self, trainer, pl_module) -> None:
        self._send("on_validation_start", trainer)

    def on_train_epoch_end(self, trainer, pl_module) -> None:
        self._send("on_train_epoch_end", trainer)


def run(tmp_path, callback, sender, **options) -> RunFolder:
    options = {"check_val_every_n_epoch": 50, "num_sanity_val_steps": 0, **options}
    with pytest.raises(Preempted) as end:
        small["run"](tmp_path, extra=(callback, sender), **options)
    assert end.value.code == 75
    return RunFolder(path=tmp_path / "small" / "version_0")


@pytest.mark.parametrize("grace", [0.0, 60.0])
def test_without_grace_or_before_a_step_is_known_it_stops_at_once(tmp_path, make, capfd, grace):
    step = 1 if grace else 3
    folder = run(tmp_path, make(grace), Signal(step))
    assert folder.checkpoint_steps() == list(range(1, step))
    last = folder.checkpoint(2) if step == 3 else "none yet, so that the run starts anew"
    assert capfd.readouterr().err.splitlines()[-1] == (
        f"gtpo-lit: SIGTERM: the run stops at once, in RL step {step}; last complete checkpoint: "
        f"{last}. --ckpt_path last goes on from there (exit code 75)"
    )


@pytest.mark.parametrize("times", [1, 3])
def test_a_step_that_fits_is_finished_and_saved_off_the_beat(tmp_path, make, capfd, times):
    folder = run(tmp_path, make(60.0), Signal(3, times=times), steps=9, every_n_epochs=50)
    assert folder.checkpoint_steps() == [3]
    assert [*read_rows(folder.metrics)] == [1, 2, 3]
    assert not folder.finished
    said = [line for line in capfd.readouterr().err.splitlines() if "SIGTERM" in line]
    assert said == [
        "gtpo-lit: SIGTERM: RL step 3 is thought to end within run.grace_seconds = 60; the run "
        "stops after it",
        f"gtpo-lit: SIGTERM: the run stops between two RL steps; last complete checkpoint: "
        f"{folder.checkpoint(3)}. --ckpt_path last goes on from there (exit code 75)",
    ]


def test_what_was_finished_goes_on_where_it_stopped(tmp_path, make):
    folder = run(tmp_path / "cut", make(60.0), Signal(2), steps=4)
    small["run"](tmp_path / "cut", steps=4, ckpt_path=folder.checkpoint(2),
                 check_val_every_n_epoch=50, num_sanity_val_steps=0)  # fmt: skip
    small["run"](tmp_path / "whole", steps=4, check_val_every_n_epoch=50, num_sanity_val_steps=0)
    whole = tmp_path / "whole" / "small" / "version_0"
    assert folder.metrics.read_bytes() == (whole / "metrics.csv").read_bytes()


def test_a_step_that_is_thought_to_take_longer_is_not_finished(tmp_path, make):
    callback = make(60.0)
    callback.times.left = lambda: 60.5
    assert run(tmp_path, callback, Signal(3)).checkpoint_steps() == [1, 2]


def test_a_first_validation_is_not_known_to_fit(tmp_path, make):
    folder = run(tmp_path, make(60.0), Signal(2), check_val_every_n_epoch=2)
    assert folder.checkpoint_steps() == [1]


def test_the_second_validation_is_finished_too(tmp_path, make):
    sender = Signal(4, "on_validation_start")
    folder = run(tmp_path, make(60.0), sender, steps=6, check_val_every_n_epoch=2)
    assert folder.checkpoint_steps() == [1, 2, 3, 4]
    assert "val/a/pass@1" in read_rows(folder.metrics)[4]


def test_a_signal_after_the_step_is_obeyed_by_the_next_one_which_is_saved(tmp_path, make):
    sender = Signal(2, "on_train_epoch_end")
    folder = run(tmp_path, make(60.0), sender, steps=9, every_n_epochs=50)
    assert folder.checkpoint_steps() == [3]


def test_the_last_step_ends_the_run_as_always(tmp_path, make):
    small["run"](tmp_path, steps=3, extra=(make(60.0), Signal(3)))
    folder = RunFolder(path=tmp_path / "small" / "version_0")
    assert folder.finished
    assert folder.checkpoint_steps() == [1, 2, 3]


def test_without_a_signal_nothing_happens_and_sigterm_is_given_back(tmp_path, make, capfd):
    before = signal.getsignal(signal.SIGTERM)
    callback = make(60.0)
    small["run"](tmp_path, steps=3, extra=(callback,))
    assert RunFolder(path=tmp_path / "small" / "version_0").finished
    assert signal.getsignal(signal.SIGTERM) == before
    assert callback.notice.decision is None
    assert "SIGTERM" not in capfd.readouterr().err


def fake_trainer(**changes):
    connector = SimpleNamespace(cluster_environment=changes.pop("environment", None))
    return SimpleNamespace(
        **{"_accelerator_connector": connector, "current_epoch": 4, "world_size": 1, **changes}
    )


@pytest.mark.parametrize("error", [RuntimeError("out of luck"), KeyboardInterrupt()])
def test_a_run_that_fails_gives_sigterm_back_too(tmp_path, make, error, monkeypatch):
    class Fails(Callback):
        def on_train_batch_end(self, *args):
            raise error

    monkeypatch.setattr(signal, "signal", keep_sigint(signal.signal))
    before, callback = signal.getsignal(signal.SIGTERM), make()
    with pytest.raises(SystemExit if isinstance(error, KeyboardInterrupt) else RuntimeError):
        small["run"](tmp_path, extra=(callback, Fails()), num_sanity_val_steps=0)
    assert callback.notice is not None
    assert signal.getsignal(signal.SIGTERM) == before
    assert signal.set_wakeup_fd(-1) == -1


def keep_sigint(signal_):
    """Lightning ignores SIGINT for good once it got one."""
    return lambda number, handler: number != signal.SIGINT and signal_(number, handler)


def test_a_step_that_another_thread_has_decided_upon_is_announced_once(make, capfd):
    callback = make(60.0)
    callback.setup(fake_trainer(is_global_zero=True), None, "fit")
    callback.times.left = lambda: 1.0
    assert callback.notice.ask() == "finish"
    callback.on_signal(signal.SIGTERM, None)
    callback.on_signal(signal.SIGTERM, None)
    assert capfd.readouterr().err == (
        "gtpo-lit: SIGTERM: RL step 5 is thought to end within run.grace_seconds = 60; the run "
        "stops after it\n"
    )


def test_only_the_first_rank_speaks(make, capfd):
    callback = make(60.0)
    callback.setup(fake_trainer(is_global_zero=False), None, "fit")
    callback.times.left = lambda: 1.0
    callback.on_signal(signal.SIGTERM, None)
    assert callback.notice.decision == "finish"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("asked", [True, False])
def test_all_ranks_stop_if_any_was_asked_to(make, asked):
    heard = []

    def reduce(decision, *, all):
        heard.append((decision, all))
        return asked

    saver = small["RunCheckpoint"]()
    strategy = SimpleNamespace(reduce_boolean_decision=reduce)
    trainer = fake_trainer(world_size=2, strategy=strategy, checkpoint_callbacks=[saver])
    callback = make(60.0)
    callback.on_train_epoch_end(trainer, None)
    assert heard == [(False, False)]
    assert saver.save_this_step == asked


def test_slurm_does_not_requeue_in_the_middle_of_a_step(make):
    environment = SLURMEnvironment(auto_requeue=True)
    trainer = fake_trainer(environment=environment)
    make().setup(trainer, None, "fit")
    assert environment.auto_requeue is False
    assert isinstance(trainer._signal_connector, NoSignals)
    before = signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM)
    trainer._signal_connector.register_signal_handlers()
    assert (signal.getsignal(signal.SIGUSR1), signal.getsignal(signal.SIGTERM)) == before


def test_outside_of_the_main_thread_signals_are_left_alone(make):
    callback = make(60.0)
    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=callback.setup, args=(fake_trainer(), None, "fit"))
    thread.start()
    thread.join()
    assert callback.notice is None
    assert signal.getsignal(signal.SIGTERM) == before
    callback.teardown(fake_trainer(), None, "fit")

"""SIGTERM is decided upon once, whoever hears it; a process that stays too long ends hard."""

import os
import signal
import threading
import time

import pytest
import torch.distributed as dist

from gtpo_lit import stop_notice
from gtpo_lit.stop_notice import PREEMPTED, StopNotice

KEY = "gtpo_lit/sigterm"


@pytest.fixture(autouse=True)
def hard_ends(monkeypatch):
    """When the process would have ended hard; it must not, since it runs the tests."""
    ends = []
    monkeypatch.setattr(stop_notice, "_end_hard", lambda: ends.append(time.monotonic()))
    monkeypatch.setattr(stop_notice, "_POLL", 0.02)
    return ends


@pytest.fixture
def make(monkeypatch):
    """Makes notices that share a store, and closes them."""
    made = []

    def make(fits=True, *, grace=60.0, store=None):
        monkeypatch.setattr(stop_notice, "_store", lambda: store)
        decide = fits if callable(fits) else lambda: fits
        made.append(StopNotice(decide, grace_seconds=grace))
        return made[-1]

    yield make
    for notice in made:
        notice.close()
    wait_for(lambda: not listeners())


def wait_for(condition):
    limit = time.monotonic() + 10
    while not condition() and time.monotonic() < limit:
        time.sleep(0.005)
    assert condition()


def listeners():
    return [one for one in threading.enumerate() if one.name == "gtpo-lit-sigterm"]


@pytest.mark.parametrize(("fits", "decision"), [(True, "finish"), (False, "stop")])
def test_what_fits_is_finished(make, fits, decision):
    notice = make(fits)
    assert notice.decision is None
    assert notice.ask() == notice.decision == decision


def test_a_decision_is_made_once(make):
    answers = iter([False])
    notice = make(lambda: next(answers))
    assert [notice.ask() for _ in range(3)] == ["stop"] * 3


@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_the_first_rank_decides_for_all(make, first, second):
    store = dist.HashStore()
    one, two = make(first, store=store), make(second, store=store)
    wanted = "finish" if first else "stop"
    assert (one.ask(), two.ask()) == (wanted, wanted)


class Gone:
    """The store of a rank that has ended."""

    def compare_set(self, *args):
        raise RuntimeError("Connection reset by peer")

    check = compare_set


def test_without_the_rank_that_keeps_the_store_the_run_stops(make):
    assert make(True, store=Gone()).ask() == "stop"


def test_a_signal_runs_the_handler_and_is_decided_upon_without_it(make):
    seen = []
    notice = make(True)
    notice.watch(lambda number, frame: seen.append(number))
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: notice.decision == "finish")
    assert seen == [signal.SIGTERM]


def test_other_signals_are_not_taken_for_it(make):
    notice = make(True)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: None)
    try:
        notice.watch(lambda number, frame: None)
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.1)
        assert notice.decision is None
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_another_rank_got_comes_as_a_signal_with_its_decision(make):
    store, seen = dist.HashStore(), []
    notice = make(True, store=store)
    notice.watch(lambda number, frame: seen.append(notice.decision))
    time.sleep(0.05)
    assert seen == []
    store.compare_set(KEY, "", "stop")
    wait_for(lambda: seen == ["stop"])
    time.sleep(0.1)
    assert seen == ["stop"]


def test_listening_goes_on_when_the_store_is_gone(make):
    notice = make(True, store=Gone())
    notice.watch(lambda number, frame: None)
    wait_for(lambda: notice._store is None)
    assert notice.decision is None
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: notice.decision == "finish")


@pytest.mark.parametrize(("fits", "allowed"), [(False, 0.1), (True, 0.4)])
def test_a_process_that_stays_ends_hard_in_time(make, hard_ends, monkeypatch, fits, allowed):
    monkeypatch.setattr(stop_notice, "_PATIENCE", 0.1)
    make(fits, grace=0.3).watch(lambda number, frame: None)
    began = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: hard_ends)
    assert hard_ends[0] - began >= allowed


def test_a_run_that_has_gone_on_to_close_does_not_end_hard(make, hard_ends, monkeypatch):
    monkeypatch.setattr(stop_notice, "_PATIENCE", 0.1)
    monkeypatch.setattr(stop_notice, "_POLL", 0.3)
    notice = make(False)
    notice.watch(lambda number, frame: None)
    os.kill(os.getpid(), signal.SIGTERM)
    wait_for(lambda: notice.decision == "stop")
    notice.close()
    wait_for(lambda: not listeners())
    assert hard_ends == []


def test_close_puts_back_what_was_there(make):
    def own(number, frame): ...

    before = signal.signal(signal.SIGTERM, own)
    ears = os.pipe2(os.O_NONBLOCK)
    fd = signal.set_wakeup_fd(ears[1])
    try:
        open_files = len(os.listdir("/proc/self/fd"))
        notice = make()
        notice.watch(lambda number, frame: None)
        assert signal.getsignal(signal.SIGTERM) is not own
        assert len(listeners()) == 1
        notice.close()
        notice.close()
        assert signal.getsignal(signal.SIGTERM) is own
        assert signal.set_wakeup_fd(fd) == ears[1]
        wait_for(lambda: not listeners())
        assert len(os.listdir("/proc/self/fd")) == open_files
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.set_wakeup_fd(fd)
        for ear in ears:
            os.close(ear)


def test_others_get_three_looks_at_the_store(make, monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    make(store=None).let_others_see()
    assert slept == []
    make(store=dist.HashStore()).let_others_see()
    assert slept == [pytest.approx(0.06)]


def test_children_that_end_are_no_reason_to_kill_this_process_any_more(make):
    """Lightning watches the ranks it started, and kills itself when one ends with a code."""
    done = threading.Event()
    observer = threading.Thread(target=done.wait, name="child-process-observer", daemon=True)
    observer._child_processes = ["a rank"]
    observer.start()
    make().ask()
    done.set()
    assert observer._child_processes == []


def test_alone_there_is_no_store():
    assert stop_notice._store() is None


def test_a_hard_end_says_so_and_has_the_code_of_a_preempted_run(monkeypatch, capsys):
    monkeypatch.undo()
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    stop_notice._end_hard()
    assert codes == [PREEMPTED] == [75]
    assert capsys.readouterr().err == (
        "gtpo-lit: SIGTERM: still here 10 s after the end; this process ends hard\n"
    )

from __future__ import annotations

import threading
import time

import pytest

from gtpo_lit.sampling.vllm_fleet import Fleet, NoServerLeft
from gtpo_lit.sampling.vllm_http import RequestRefused, ServerError, UnusableAnswer


class Server:
    def __init__(self, url):
        self.url, self.alive, self.stopped = url, True, 0

    def healthy(self):
        return self.alive

    def stop(self):
        self.stopped += 1

    def restart(self):
        self.stopped = 0


def fleet_of(count=2, **options):
    return Fleet([Server(f"s{index}") for index in range(count)], **options)


def test_every_job_is_done_once_and_answers_keep_their_order():
    done = []

    def do(server, job):
        done.append(job)
        return (server.url, job * job)

    answers, refused = fleet_of(3).run(list(range(50)), do)
    assert [answer[1] for answer in answers] == [job * job for job in range(50)]
    assert sorted(done) == list(range(50))
    assert refused == {}


@pytest.mark.parametrize(("first", "order"), [(0, "s0 s1 s2"), (1, "s1 s2 s0"), (5, "s2 s0 s1")])
def test_ranks_start_at_different_servers(first, order):
    assert [server.url for server in fleet_of(3, first=first).live] == order.split()


def test_no_server_has_more_in_hand_than_allowed():
    lock, now, most = threading.Lock(), {}, {}

    def do(server, _job):
        with lock:
            now[server.url] = now.get(server.url, 0) + 1
            most[server.url] = max(most.get(server.url, 0), now[server.url])
        time.sleep(0.01)
        with lock:
            now[server.url] -= 1

    fleet_of(2, in_flight=3).run(list(range(30)), do)
    assert most == {"s0": 3, "s1": 3}


def test_a_slow_server_gets_fewer_jobs():
    counts = {"s0": 0, "s1": 0}

    def do(server, _job):
        counts[server.url] += 1
        time.sleep(0.2 if server.url == "s0" else 0.005)

    fleet_of(2, in_flight=1).run(list(range(20)), do)
    assert counts["s0"] + counts["s1"] == 20
    assert counts["s0"] <= 5


def test_jobs_of_a_server_that_falls_out_are_done_by_another():
    fleet = fleet_of(2, in_flight=4)
    fell = threading.Event()

    def do(server, job):
        if server.url == "s0":
            fell.set()
            raise ServerError("broken")
        assert fell.wait(10)
        return job

    answers, _ = fleet.run(list(range(8)), do)
    assert answers == list(range(8))
    assert fleet.out == {"s0": "broken"}
    assert fleet.redone >= 1
    assert [server.url for server in fleet.live] == ["s1"]
    assert fleet.servers["s0"].stopped == 1


def test_an_idle_server_waits_for_what_another_may_drop():
    # One job: s1 has nothing to do until s0 fails.
    fleet = fleet_of(2)
    order = []

    def do(server, job):
        order.append(server.url)
        if len(order) == 1:
            time.sleep(0.1)
            raise ServerError("late")
        return job

    assert fleet.run(["only"], do)[0] == ["only"]
    assert len(set(order)) == 2


def test_none_left_lists_every_reason():
    fleet = fleet_of(2)

    def do(server, _job):
        raise ServerError(f"{server.url} broke")

    with pytest.raises(NoServerLeft, match="of 2: s0: s0 broke; s1: s1 broke"):
        fleet.run([1, 2], do)
    with pytest.raises(NoServerLeft):
        fleet.require_live()
    fleet.readmit("s1")
    fleet.require_live()
    assert fleet.out == {"s0": "s0 broke"}


def test_refused_jobs_are_named_and_take_nobody_out():
    fleet = fleet_of(2)

    def do(_server, job):
        if job % 3 == 0:
            raise RequestRefused(f"no {job}")
        return job

    answers, refused = fleet.run(list(range(7)), do)
    assert answers == [None, 1, 2, None, 4, 5, None]
    assert {place: str(error) for place, error in refused.items()} == {
        0: "no 0",
        3: "no 3",
        6: "no 6",
    }
    assert fleet.out == {}


def test_a_job_that_no_server_can_answer_is_given_up_and_takes_nobody_out():
    fleet, tried = fleet_of(3, in_flight=2), []

    def do(server, job):
        if job == 4:
            tried.append(server.url)
            raise UnusableAnswer(f"nonsense from {server.url}")
        return job

    answers, refused = fleet.run(list(range(7)), do)
    assert answers == [0, 1, 2, 3, None, 5, 6]
    assert sorted(tried) == ["s0", "s1", "s2"]
    assert str(refused[4]) == f"nonsense from {tried[-1]}"
    assert (fleet.out, fleet.redone) == ({}, 0)


def test_a_job_doubted_by_one_server_is_given_up_when_the_others_are_out():
    fleet, doubted = fleet_of(2, in_flight=1), threading.Event()

    def do(server, job):
        if server.url == "s0":
            doubted.set()
            raise UnusableAnswer("nonsense")
        assert doubted.wait(10)
        raise ServerError("dead")

    answers, refused = fleet.run([0, 1], do)
    assert answers == [None, None]
    assert [str(refused[index]) for index in (0, 1)] == ["nonsense", "nonsense"]
    assert fleet.out == {"s1": "dead"}


def test_a_programming_error_comes_out_and_stops_the_rest():
    fleet = fleet_of(2, in_flight=1)
    done = []

    def do(_server, job):
        if job == 1:
            raise KeyError("bug")
        done.append(job)
        time.sleep(0.05)

    with pytest.raises(KeyError, match="bug"):
        fleet.run(list(range(100)), do)
    assert len(done) < 10
    assert fleet.out == {}
    assert [server.stopped for server in fleet.live] == [0, 0]  # ready for the next call


def test_a_silent_server_is_found_by_its_health():
    fleet = fleet_of(2, health_interval=0.05, in_flight=1)
    given_up = threading.Event()
    fleet.servers["s0"].alive = False
    fleet.servers["s0"].stop = given_up.set

    def do(server, job):
        if server.url == "s0":
            assert given_up.wait(10)
            raise ServerError("given up")
        time.sleep(0.02)
        return job

    assert fleet.run(list(range(6)), do)[0] == list(range(6))
    assert fleet.out == {"s0": "the health check fails"}


def test_no_jobs_need_no_server():
    assert fleet_of(1).run([], None) == ([], {})

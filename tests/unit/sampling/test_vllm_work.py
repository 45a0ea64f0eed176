from __future__ import annotations

from gtpo_lit.sampling.vllm_http import UnusableAnswer
from gtpo_lit.sampling.vllm_work import Work

LIVE = ["a", "b"]
NONSENSE = UnusableAnswer("nonsense")


def test_jobs_are_taken_in_order_until_none_is_left():
    work = Work("xy")
    assert [work.take("a", LIVE) for _ in range(3)] == [0, 1, None]
    assert not work.done
    assert work.answer(0, "X") == {}
    assert work.answer(1, "Y") == {}
    assert work.done


def test_a_doubted_job_goes_first_and_to_the_other_server():
    work = Work("xyz")
    assert work.take("a", LIVE) == 0
    work.doubt(0, "a", NONSENSE)
    assert work.take("a", LIVE) == 1
    assert work.take("b", LIVE) == 0
    assert work.answer(0, "X") == {"a": NONSENSE}
    assert work.doubts == {}


def test_a_job_is_given_up_when_every_server_in_use_has_tried():
    work = Work("xy")
    work.take("a", LIVE)
    work.doubt(0, "a", NONSENSE)
    # With b out of use there is nobody left for it.
    assert work.take("a", ["a"]) == 1
    assert work.refused == {0: NONSENSE}
    assert not work.done
    work.doubt(1, "a", NONSENSE)
    assert work.take("a", ["a"]) is None
    assert work.refused == {0: NONSENSE, 1: NONSENSE}
    assert work.done


def test_nothing_is_given_up_while_no_server_is_in_use():
    work = Work("x")
    work.take("a", LIVE)
    work.doubt(0, "a", NONSENSE)
    assert work.take("a", []) is None
    assert work.refused == {}

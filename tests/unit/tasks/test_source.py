from __future__ import annotations

import random
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo_lit.tasks.source import ProblemSource, overlap, walk
from gtpo_lit.types import Problem


class ListSource(ProblemSource):
    def __init__(self, name: str, questions: list[str]) -> None:
        self.name = name
        self._questions = questions

    def __len__(self) -> int:
        return len(self._questions)

    def problem(self, index: int) -> Problem:
        self.check_index(index)
        return Problem(id=f"{self.name}/{index}", question=self._questions[index], answer="")


def test_seventh_of_seven_rows_is_used_at_three_a_step() -> None:
    # Steps 0 to 6 take 21 places, exactly three passes over seven rows.
    taken = [row for step in range(7) for row in walk(7, 3 * step, 3, seed=5)]
    assert [sorted(taken[start : start + 7]) for start in (0, 7, 14)] == [list(range(7))] * 3
    assert taken[:7] != taken[7:14]


def test_the_walk_is_stable_over_versions() -> None:
    assert [walk(7, 3 * step, 3, seed=0) for step in range(3)] == [
        [1, 2, 0],
        [5, 6, 3],
        [4, 5, 4],
    ]
    assert walk(7, 0, 3, seed=1) == [4, 3, 1]


def test_a_set_smaller_than_what_is_taken_starts_again() -> None:
    taken = walk(2, 1, 6, seed=0)
    assert [sorted(taken[1:3]), sorted(taken[3:5])] == [[0, 1]] * 2
    with pytest.raises(ValueError, match="without problems"):
        walk(0, 0, 1, seed=0)


def test_global_random_streams_are_untouched() -> None:
    python_state, torch_state = random.getstate(), torch.get_rng_state()
    walk(100, 30, 10, seed=11)
    assert random.getstate() == python_state
    assert torch.equal(torch.get_rng_state(), torch_state)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.data())
def test_every_pass_uses_every_row_once(size: int, data: st.DataObject) -> None:
    per_step = data.draw(st.integers(1, size))
    seed = data.draw(st.integers(0, 2**40))
    steps = range(2 * size)  # 2 * per_step whole passes
    counts = Counter(row for step in steps for row in walk(size, step * per_step, per_step, seed))
    assert counts == dict.fromkeys(range(size), 2 * per_step)


def test_overlap_ignores_case_and_spacing() -> None:
    train = ListSource("a", ["What is 2+2?", "x"])
    validation = ListSource("b", ["y", " what  is\n2+2?"])
    assert overlap(train, validation) == [" what  is\n2+2?"]
    assert overlap(train, ListSource("c", ["z"])) == []


def test_index_outside_the_set_names_the_set() -> None:
    with pytest.raises(IndexError, match="a has problems 0 to 1, not 2"):
        ListSource("a", ["p", "q"]).problem(2)

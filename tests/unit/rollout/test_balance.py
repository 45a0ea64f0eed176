"""Which row goes where: every row once, few tokens apart, the same at every world size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.rollout.balance import plan_pass, rows_per_micro_batch


def test_rows_divide_evenly_or_both_counts_are_named():
    assert rows_per_micro_batch(128, ranks=2, micro_batches=4) == 16
    with pytest.raises(ValueError, match=r"= 128 sequences .*micro_batches = 3 on 1 rank.*of 3"):
        rows_per_micro_batch(128, ranks=1, micro_batches=3)
    with pytest.raises(ValueError, match="multiple of 16"):
        rows_per_micro_batch(8, ranks=2, micro_batches=8)


def test_longest_rows_first_to_the_emptiest_micro_batch():
    plan = plan_pass([5, 5, 1, 1], mini_batches=1, ranks=1, micro_batches=2, capacity=2)
    assert plan == [[[[0, 2], [1, 3]]]]


def test_a_mini_batch_holds_the_same_rows_at_every_world_size():
    lengths = [7, 3, 9, 1, 4, 4, 8, 2]
    for ranks, micro_batches in ((1, 2), (2, 1), (1, 4), (4, 1)):
        plan = plan_pass(
            lengths,
            mini_batches=2,
            ranks=ranks,
            micro_batches=micro_batches,
            capacity=4 // (ranks * micro_batches),
        )
        rows = [sorted(row for rank in mini for bin_ in rank for row in bin_) for mini in plan]
        assert rows == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_short_step_leaves_micro_batches_empty():
    plan = plan_pass([3], mini_batches=1, ranks=2, micro_batches=1, capacity=2)
    assert plan == [[[[0]], [[]]]]


@given(
    lengths=st.lists(st.integers(1, 50), min_size=8, max_size=8),
    shape=st.sampled_from([(1, 1, 8), (1, 8, 1), (2, 2, 2), (4, 1, 2), (8, 1, 1)]),
)
def test_every_row_once_and_no_bin_over_its_capacity(lengths, shape):
    ranks, micro_batches, capacity = shape
    plan = plan_pass(
        lengths, mini_batches=1, ranks=ranks, micro_batches=micro_batches, capacity=capacity
    )
    bins = [rows for rank in plan[0] for rows in rank]
    assert sorted(row for rows in bins for row in rows) == list(range(8))
    assert max(len(rows) for rows in bins) == capacity

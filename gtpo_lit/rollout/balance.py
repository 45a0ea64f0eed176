"""Which sequence goes into which micro-batch of which rank."""

from __future__ import annotations

from collections.abc import Sequence


def rows_per_micro_batch(sequences: int, *, ranks: int, micro_batches: int) -> int:
    """Sequences in one micro-batch of one rank.

    Raises:
        ValueError: if the step's sequences do not divide evenly over all micro-batches.
    """
    rows, rest = divmod(sequences, ranks * micro_batches)
    if rest or rows == 0:
        raise ValueError(
            f"data.problems_per_step * data.group_size = {sequences} sequences do not divide "
            f"evenly over data.micro_batches = {micro_batches} on {ranks} rank(s); "
            f"choose counts so that {sequences} is a multiple of {ranks * micro_batches}"
        )
    return rows


def plan_pass(
    lengths: Sequence[int], *, mini_batches: int, ranks: int, micro_batches: int, capacity: int
) -> list[list[list[list[int]]]]:
    """Rows of one pass over a step, as ``plan[mini_batch][rank][micro_batch]``.

    A mini-batch holds consecutive rows whatever the number of ranks, so that the optimiser sees
    the same sums at every world size; the rows of a short step are spread evenly over mini-batches.
    Inside one, longest rows first, each goes to the micro-batch with the fewest tokens that still
    has room.

    Args:
        lengths: tokens of each row.
        mini_batches: optimiser steps in the pass.
        ranks: number of ranks.
        micro_batches: micro-batches of one rank in one mini-batch.
        capacity: most rows in one micro-batch.

    Example:
        >>> plan_pass([9, 1, 5, 4], mini_batches=1, ranks=2, micro_batches=1, capacity=2)
        [[[[0, 1]], [[2, 3]]]]
    """
    bins = ranks * micro_batches
    assert len(lengths) <= mini_batches * bins * capacity
    plan = []
    for number in range(mini_batches):
        start, end = (len(lengths) * (number + part) // mini_batches for part in (0, 1))
        rows = range(start, end)
        filled: list[list[int]] = [[] for _ in range(bins)]
        tokens = [0] * bins
        for row in sorted(rows, key=lambda row: (-lengths[row], row)):
            room = [index for index in range(bins) if len(filled[index]) < capacity]
            best = min(room, key=lambda index: (tokens[index], index))
            filled[best].append(row)
            tokens[best] += lengths[row]
        ordered = [sorted(rows) for rows in filled]
        plan.append(
            [ordered[rank * micro_batches : (rank + 1) * micro_batches] for rank in range(ranks)]
        )
    return plan

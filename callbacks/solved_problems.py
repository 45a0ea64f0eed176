"""The outcomes of one problem set, gathered from all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from gtpo_lit.evaluation import ProblemOutcome, SetSummary, outcome_of, summarise
from gtpo_lit.types import Graded


class SolvedProblems:
    """What became of every problem, by problem id.

    A distributed sampler may give a problem to two ranks to make them equal; it counts once. Two
    rows of a data set with the same text have different ids and count twice.
    """

    def __init__(self, k: Sequence[int] | None = None) -> None:
        """Start empty.

        Args:
            k: the values of k in pass@k and its like; None is every power of two up to the samples
                drawn, and their number.
        """
        self.k = k
        self._outcomes: list[ProblemOutcome] = []

    def update(self, batch: Sequence[Graded]) -> None:
        """Add problems, each with all its samples."""
        self._outcomes += map(outcome_of, batch)

    def summary(self, draws: int = 0) -> SetSummary:
        """The figures over all ranks, which all have to ask; intervals if `draws` is above 0."""
        gathered: list[Any] = [self._outcomes]
        if dist.is_available() and dist.is_initialized():
            gathered = [None] * dist.get_world_size()
            dist.all_gather_object(gathered, self._outcomes)
        every = (outcome for part in gathered for outcome in part)
        return summarise(every, k=self.k, draws=draws)

    def compute(self) -> dict[str, float]:
        """The values of `summary` by name, and the number of `problems`."""
        summary = self.summary()
        return {"problems": float(summary.problems), **summary.values}

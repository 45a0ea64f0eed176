"""The metric behind `PassAtK`: counts by problem, gathered from all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric

from gtpo_lit.evaluation import pass_at_k
from gtpo_lit.types import Graded


class SolvedProblems(Metric):
    """Samples drawn and right for every problem, by problem id.

    A distributed sampler may give a problem to two ranks to make them equal; it counts once. Two
    rows of a data set with the same text have different ids and count twice.
    """

    full_state_update = False

    problem: list[Tensor]
    drawn: list[Tensor]
    right: list[Tensor]
    tokens: list[Tensor]
    truncated: list[Tensor]
    reward: list[Tensor]

    def __init__(self, k: Sequence[int] | None = None) -> None:
        """Create the empty metric.

        Args:
            k: the values of k in pass@k; None is every power of two up to the samples drawn.
        """
        super().__init__()
        self.k = k
        for name in ("problem", "drawn", "right", "tokens", "truncated", "reward"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, batch: Sequence[Graded]) -> None:
        """Add problems, each with all its samples.

        A rank without problems calls this with an empty batch, or the others wait for it.
        """
        done = [graded.completions for graded in batch]
        self._add("problem", [_hash(graded.problem.id) for graded in batch])
        self._add("drawn", [len(graded.correct) for graded in batch])
        self._add("right", [sum(map(bool, graded.correct)) for graded in batch])
        self._add("tokens", [sum(len(one.token_ids) for one in every) for every in done])
        self._add("truncated", [sum(o.finish_reason == "length" for o in every) for every in done])
        reward = [float(sum(graded.reward)) for graded in batch]
        self.reward.append(torch.tensor(reward, dtype=torch.float64, device=self.device))

    def compute(self) -> dict[str, float]:
        """Values by name: `pass@k`, `length/mean`, `truncated_fraction`, `reward/mean`, `problems`.

        pass@k is the mean over problems, and is left out if some problem has fewer than k samples.
        Everything is left out of an empty set but `problems`.
        """
        problem = _joined(self.problem)
        # Sorting by id makes the sums independent of how problems were spread over ranks.
        _, first = np.unique(problem, return_index=True)
        drawn, right = _joined(self.drawn)[first], _joined(self.right)[first]
        values = {"problems": float(first.size)}
        if first.size == 0 or drawn.sum() == 0:
            return values
        for k in self._k(int(drawn.min())):
            values[f"pass@{k}"] = float(np.mean(pass_at_k(drawn, right, k)))
        samples = float(drawn.sum())
        values["length/mean"] = float(_joined(self.tokens)[first].sum()) / samples
        values["truncated_fraction"] = float(_joined(self.truncated)[first].sum()) / samples
        values["reward/mean"] = float(_joined(self.reward)[first].sum()) / samples
        return values

    def _k(self, least: int) -> list[int]:
        powers = [2**power for power in range(least.bit_length())]
        return [k for k in (powers if self.k is None else self.k) if k <= least]

    def _add(self, name: str, counts: list[int]) -> None:
        getattr(self, name).append(torch.tensor(counts, dtype=torch.int64, device=self.device))


def _joined(state: list[Tensor] | Tensor) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    # A list on one rank, one tensor after Lightning has gathered.
    tensor = torch.cat(state) if isinstance(state, list) else state
    return tensor.cpu().numpy()


def _hash(problem_id: str) -> int:
    digest = hashlib.blake2b(problem_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)

"""A metric that counts right samples by problem, over all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor
from torchmetrics import Metric

from gtpo_lit.evaluation import mean_pass_at_k
from gtpo_lit.types import Graded


class ProblemCounts(Metric):
    """Samples and right samples of every problem, each problem once whatever the world size.

    Problems are told apart by their row id, never by their text. Ranks that were given the same
    problem, as padding samplers do, count it once.
    """

    full_state_update = False
    ids: list[Tensor]
    table: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        self.add_state("ids", default=[], dist_reduce_fx="cat")
        self.add_state("table", default=[], dist_reduce_fx="cat")

    def update(self, graded: Sequence[Graded]) -> None:
        """Add problems with all their samples."""
        if not graded:
            return
        self.ids.append(torch.tensor([_number(item.problem.id) for item in graded]))
        self.table.append(
            torch.tensor(
                [
                    [
                        len(item.correct),
                        sum(item.correct),
                        sum(len(done.token_ids) for done in item.completions),
                        sum(done.finish_reason == "length" for done in item.completions),
                        sum(item.reward),
                    ]
                    for item in graded
                ],
                dtype=torch.float64,
            )
        )

    def compute(self) -> dict[str, list[float]]:
        """Columns by problem: samples, right, tokens, truncated, reward."""
        ids, table = self._rows()
        seen = dict(zip(ids, table, strict=True))
        columns = list(zip(*seen.values(), strict=True)) or [()] * 5
        names = ("samples", "right", "tokens", "truncated", "reward")
        return {name: list(column) for name, column in zip(names, columns, strict=True)}

    def _rows(self) -> tuple[list[int], list[list[float]]]:
        if not len(self.ids):
            return [], []
        ids = self.ids if isinstance(self.ids, Tensor) else torch.cat(self.ids)
        table = self.table if isinstance(self.table, Tensor) else torch.cat(self.table)
        return ids.tolist(), table.tolist()


def pass_metrics(columns: dict[str, list[float]], ks: Sequence[int]) -> dict[str, float]:
    """`pass@k` for each k that the samples allow, and means over samples."""
    counts = [
        (int(samples), int(right))
        for samples, right in zip(columns["samples"], columns["right"], strict=True)
    ]
    if not counts:
        return {}
    fewest, total = min(samples for samples, _ in counts), sum(samples for samples, _ in counts)
    metrics = {f"pass@{k}": mean_pass_at_k(counts, k) for k in ks if k <= fewest}
    return metrics | {
        "reward/mean": sum(columns["reward"]) / total,
        "length/mean": sum(columns["tokens"]) / total,
        "length/truncated_fraction": sum(columns["truncated"]) / total,
        "problems": float(len(counts)),
    }


def _number(name: str) -> int:
    """A 62-bit number for a problem id, the same on every rank."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") >> 2

"""A credited step cut into micro-batches that carry their mini-batch's denominator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.rollout.balance import plan_pass, rows_per_micro_batch
from gtpo_lit.rollout.collate import trim
from gtpo_lit.types import Rollouts


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a step's sequences are cut; constants of the config, the same on all ranks."""

    passes: int
    """How often the step is trained on."""
    mini_batches: int
    """Optimiser steps in a pass."""
    micro_batches: int
    """Micro-batches of one rank in a mini-batch."""
    ranks: int
    rows: int
    """Sequences in a micro-batch."""
    max_tokens: int | None = None
    """Most tokens in a micro-batch, padding included."""

    @classmethod
    def of_step(
        cls,
        sequences: int,
        *,
        passes: int,
        micro_batches: int,
        accumulate: int,
        ranks: int,
        max_tokens: int | None,
    ) -> Cut:
        """The cut of a step of `sequences`, the optimiser stepping every `accumulate` batches.

        Raises:
            ValueError: if one count does not divide another, naming both.
        """
        if micro_batches % accumulate:
            raise ValueError(
                f"data.micro_batches = {micro_batches} is not a multiple of "
                f"trainer.accumulate_grad_batches = {accumulate}"
            )
        return cls(
            passes=passes,
            mini_batches=micro_batches // accumulate,
            micro_batches=accumulate,
            ranks=ranks,
            rows=rows_per_micro_batch(sequences, ranks=ranks, micro_batches=micro_batches),
            max_tokens=max_tokens,
        )

    def __len__(self) -> int:
        """Micro-batches of one rank in a whole RL step."""
        return self.passes * self.mini_batches * self.micro_batches

    def yield_for(
        self,
        rank: int,
        rollouts: Rollouts,
        algorithm: Algorithm,
        rescore: Callable[[Rollouts], Rollouts],
    ) -> Iterator[Rollouts]:
        """This rank's micro-batches of a credited step, one after the other.

        A mini-batch's loss mask and denominator are settled when its first micro-batch is asked
        for, hence after the optimiser steps before it.

        Raises:
            ValueError: if a micro-batch would hold more than `max_tokens` tokens.
        """
        plan = plan_pass(
            rollouts.attention_mask.sum(dim=1).tolist(),
            mini_batches=self.mini_batches,
            ranks=self.ranks,
            micro_batches=self.micro_batches,
            capacity=self.rows,
        )
        for _ in range(self.passes):
            for by_rank in plan:
                places = sorted(row for bins in by_rank for rows in bins for row in rows)
                # A step with fewer rows than mini-batches leaves some without any.
                some = rollouts.rows(places) if places else masked_row(rollouts)
                whole = settle(some, algorithm, rescore)
                at = {row: index for index, row in enumerate(places)}
                for rows in by_rank[rank]:
                    part = _take(whole, [at[row] for row in rows])
                    self._check(part)
                    yield part

    def _check(self, part: Rollouts) -> None:
        tokens = part.input_ids.numel()
        if self.max_tokens is not None and tokens > self.max_tokens:
            raise ValueError(
                f"a micro-batch of {len(part.mask)} sequences holds {tokens} tokens with padding, "
                f"over data.max_tokens_per_micro_batch = {self.max_tokens}: raise "
                f"data.micro_batches (now {self.micro_batches * self.mini_batches} a pass) or the "
                "limit"
            )


def settle(
    rollouts: Rollouts, algorithm: Algorithm, rescore: Callable[[Rollouts], Rollouts]
) -> Rollouts:
    """All ranks' rows of one mini-batch, with the loss mask and denominator that they share.

    `rescore` refreshes the entropies with the current policy's; it runs only for an algorithm that
    selects its tokens by them.
    """
    seen = rescore(rollouts) if algorithm.selects_by_current_entropy else rollouts
    selected = algorithm.select(seen)
    denominator = algorithm.denominator(rollouts, selected).float()
    return rollouts.replace(loss_mask=selected, denominator=denominator)


def _take(whole: Rollouts, rows: list[int]) -> Rollouts:
    """These rows without needless padding; a fully masked row where there are none."""
    return trim(whole.rows(rows) if rows else masked_row(whole))


def masked_row(rollouts: Rollouts) -> Rollouts:
    """One row without any loss token: what fills a micro-batch that has nothing to hold."""
    row = rollouts.rows([0])
    return row.replace(loss_mask=torch.zeros_like(row.loss_mask))

"""Log-probs and entropies of rollouts under a policy, without gradient."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.rollout.collate import trim
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.rollout.replica import Replica
from gtpo_lit.types import Rollouts

Precision = Callable[[], AbstractContextManager[Any]]


def score(
    policy: CausalPolicy,
    rollouts: Rollouts,
    *,
    rows_per_forward: int,
    replica: Replica = Replica(),  # noqa: B008 (frozen)
    precision: Precision = nullcontext,
) -> tuple[Tensor, Tensor]:
    """Log-probs and full-vocabulary entropies at the sampling temperature, 0 where masked.

    Args:
        policy: scores on its own device; the results lie on the CPU.
        rollouts: B sequences, on the CPU, the same on all ranks.
        rows_per_forward: how many of them one forward holds; bounds the memory.
        replica: which of them this rank scores; it gets the results of the others.
        precision: what a forward runs in; that of training, so that ratios are 1 before the first
            update.

    Returns:
        Two [B, T] float32 tensors, in nats, the same on all ranks.
    """
    logp, entropy = _tables(policy, rollouts, rows_per_forward, replica, precision, 2)
    return logp, entropy


def score_logprobs(
    policy: CausalPolicy,
    rollouts: Rollouts,
    *,
    rows_per_forward: int,
    replica: Replica = Replica(),  # noqa: B008 (frozen)
    precision: Precision = nullcontext,
) -> Tensor:
    """The log-probs of `score`, bit for bit, without the cost of the entropies.

    Args:
        policy: as in `score`, and so are all others.
        rollouts: B sequences.
        rows_per_forward: how many of them one forward holds; bounds the memory.
        replica: which of them this rank scores.
        precision: what a forward runs in.

    Returns:
        [B, T] float32, in nats.
    """
    return _tables(policy, rollouts, rows_per_forward, replica, precision, 1)[0]


@torch.no_grad()
def _tables(
    policy: CausalPolicy,
    rollouts: Rollouts,
    rows_per_forward: int,
    replica: Replica,
    precision: Precision,
    count: int,
) -> list[Tensor]:
    """Log-probs and, with a count of 2, entropies."""
    total = len(rollouts.mask)
    own = replica.share(total)
    parts = []
    # All ranks run the same number of forwards, since a sharded policy's are collectives.
    for start in range(0, replica.longest_share(total), rows_per_forward):
        rows = list(own[start : start + rows_per_forward])
        values = _forward(policy, rollouts, rows or [0], precision, count)
        if rows:
            parts.append((rows, values))
    tables = [torch.zeros(rollouts.mask.shape) for _ in range(count)]
    for found in all_gather(parts) if replica.count > 1 else [parts]:
        for rows, values in found:
            for table, value in zip(tables, values, strict=True):
                table[rows, : value.shape[1]] = value
    return tables


def _forward(
    policy: CausalPolicy, rollouts: Rollouts, rows: list[int], precision: Precision, count: int
) -> list[Tensor]:
    part = trim(rollouts.rows(torch.tensor(rows))).to(policy.device)
    with precision():
        values = policy(
            part.input_ids,
            part.attention_mask,
            part.mask.shape[1],
            temperature=rollouts.temperature,
            with_entropy=count > 1,
        )
    return [value.float().masked_fill(~part.mask, 0.0).cpu() for value in values[:count]]

"""Log-probs and entropies of rollouts under a policy, without gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.rollout.collate import trim
from gtpo_lit.types import Rollouts


def score(
    policy: CausalPolicy, rollouts: Rollouts, *, rows_per_forward: int
) -> tuple[Tensor, Tensor]:
    """Log-probs and full-vocabulary entropies at the sampling temperature, 0 where masked.

    Args:
        policy: scores on its own device; the results lie where `rollouts` do.
        rollouts: B sequences.
        rows_per_forward: how many of them one forward holds; bounds the memory.

    Returns:
        Two [B, T] float32 tensors, in nats.
    """
    logp, entropy = _tables(policy, rollouts, rows_per_forward, with_entropy=True)
    return logp, entropy


def score_logprobs(policy: CausalPolicy, rollouts: Rollouts, *, rows_per_forward: int) -> Tensor:
    """The log-probs of `score`, bit for bit, without the cost of the entropies.

    Args:
        policy: scores on its own device; the result lies where `rollouts` do.
        rollouts: B sequences.
        rows_per_forward: how many of them one forward holds; bounds the memory.

    Returns:
        [B, T] float32, in nats.
    """
    return _tables(policy, rollouts, rows_per_forward, with_entropy=False)[0]


@torch.no_grad()
def _tables(
    policy: CausalPolicy, rollouts: Rollouts, rows_per_forward: int, *, with_entropy: bool
) -> list[Tensor]:
    tables = [torch.zeros(rollouts.mask.shape) for _ in range(2 if with_entropy else 1)]
    device = next(policy.parameters()).device
    for start in range(0, len(rollouts.mask), rows_per_forward):
        rows = torch.arange(start, min(start + rows_per_forward, len(rollouts.mask)))
        part = trim(rollouts.rows(rows)).to(device)
        depth = part.mask.shape[1]
        values = policy(
            part.input_ids,
            part.attention_mask,
            depth,
            temperature=rollouts.temperature,
            with_entropy=with_entropy,
        )
        # Without entropies there is one table, and nothing is read of the second value.
        for table, value in zip(tables, values, strict=False):
            table[rows, :depth] = value.float().masked_fill(~part.mask, 0.0).cpu()
    return tables

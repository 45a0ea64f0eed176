"""The gradient that a step's credit would give a policy, and how two of them agree."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gtpo_lit.algorithms import Algorithm
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.rollout.collate import trim
from gtpo_lit.rollout.micro_batches import settle
from gtpo_lit.rollout.scoring import score
from gtpo_lit.types import Rollouts


def gradient(
    policy: CausalPolicy, rollouts: Rollouts, algorithm: Algorithm, *, rows_per_forward: int = 8
) -> list[Tensor]:
    """The gradient of the algorithm's loss over the whole step as one mini-batch.

    It is the loss of training, with ratio, clip bounds, selection, aggregation and correction, but
    for the KL term and the clip of the gradient's norm.

    Args:
        policy: at whose weights the gradient is taken; those that sampled, or others.
        rollouts: the step with the algorithm's advantages.
        algorithm: whose loss it is.
        rows_per_forward: sequences in one forward and backward; bounds the memory.

    Returns:
        One tensor a parameter that is trained, in the order of `policy.parameters()`.
    """

    def rescore(some: Rollouts) -> Rollouts:
        _, entropy = score(policy, some, rows_per_forward=rows_per_forward)
        return some.replace(entropy=entropy)

    trained = [p for p in policy.parameters() if p.requires_grad]
    device = trained[0].device
    policy.zero_grad(set_to_none=True)
    whole = settle(rollouts, algorithm, rescore)
    for start in range(0, len(whole.mask), rows_per_forward):
        rows = range(start, min(start + rows_per_forward, len(whole.mask)))
        batch = trim(whole.rows(list(rows))).to(device)
        logp, entropy = policy(
            batch.input_ids,
            batch.attention_mask,
            batch.mask.shape[1],
            temperature=batch.temperature,
            with_entropy=algorithm.needs_current_entropy,
        )
        algorithm.loss(logp, entropy, batch).loss.backward()
    found = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
    policy.zero_grad(set_to_none=True)
    return found


def gradient_norm(parts: Sequence[Tensor]) -> float:
    """The norm over all parameters, in float64."""
    return math.sqrt(_dot(parts, parts))


def gradient_cosine(first: Sequence[Tensor], second: Sequence[Tensor]) -> float | None:
    """The cosine of two gradients, in float64; None where one is 0.

    >>> gradient_cosine([torch.tensor([3.0]), torch.tensor([4.0])], [torch.zeros(1), torch.ones(1)])
    0.8
    """
    norms = gradient_norm(first) * gradient_norm(second)
    return _dot(first, second) / norms if norms else None


def _dot(first: Sequence[Tensor], second: Sequence[Tensor]) -> float:
    return sum(float((a.double() * b.double()).sum()) for a, b in zip(first, second, strict=True))

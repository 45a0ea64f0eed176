"""Credit of a whole step, computed on whole groups of all ranks before any split."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.functional.advantages import mixed_groups
from gtpo_lit.rollout.length_penalty import LengthPenalty
from gtpo_lit.types import Rollouts


def penalised(
    rollouts: Rollouts, penalties: Sequence[LengthPenalty], *, max_tokens: int
) -> Rollouts:
    """The step with the sum of its length penalties; unchanged where there are none."""
    if not penalties:
        return rollouts
    parts = [item.penalty(rollouts, max_tokens) for item in penalties]
    return rollouts.replace(penalty=torch.stack(parts).sum(dim=0))


def only_mixed(rollouts: Rollouts) -> Rollouts:
    """The step with no gradient for groups of one outcome, which dynamic sampling left in.

    It does so only in a step in which it found no mixed group at all, to have something to log.
    """
    mixed = mixed_groups(rollouts.correct, rollouts.group, rollouts.mask.any(dim=1))
    return rollouts.replace(loss_mask=rollouts.loss_mask & mixed[:, None])


def without_truncated(rollouts: Rollouts) -> Rollouts:
    """The step with no gradient for truncated responses (DAPO's overlong filter).

    Only the loss mask changes: rewards, statistics, shares and entropies still count them.
    """
    return rollouts.replace(loss_mask=rollouts.loss_mask & ~rollouts.truncated[:, None])


def credited(rollouts: Rollouts, algorithm: Algorithm) -> Rollouts:
    """The step with its advantages."""
    return rollouts.replace(advantages=algorithm.advantages(rollouts))

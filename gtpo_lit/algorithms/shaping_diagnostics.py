"""What entropy shaping did to a step's credit, for GTPO and GRPO-S alike."""

from __future__ import annotations

import copy
from typing import Protocol

import torch
from torch import Tensor

from gtpo_lit.algorithms.algorithm import penalised_reward
from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.conservation import conservation_gap, effective_members, sign_flips
from gtpo_lit.functional.masked import masked_mean
from gtpo_lit.functional.placebo import ShareWeights
from gtpo_lit.functional.shaping_reach import context_keys, moved_by_bounds, shapeable
from gtpo_lit.types import Rollouts

# Advantages are of order one; those within this of each other (absolute plus relative) are the
# same credit.
SAME_CREDIT = 1e-4


class ShapingAlgorithm(Protocol):
    """An algorithm whose credit moves with entropy shares."""

    share_weights: ShareWeights

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] or [B, T] credit."""


def shaping_diagnostics(
    algorithm: ShapingAlgorithm,
    rollouts: Rollouts,
    *,
    shaped: Tensor,
    shares: Tensor,
    entropy: Tensor,
    alive: Tensor,
    context: Tensor,
    weights: tuple[float, float],
    bounds: tuple[float, tuple[float, float] | None],
) -> dict[str, float]:
    """Numbers under `shaping/`.

    Args:
        algorithm: what gave the rollouts their advantages.
        rollouts: a whole step with its advantages.
        shaped: [B, T] token rewards or [B, 1] sequence rewards, before penalties.
        shares: of the same shape.
        entropy: of the same shape, before floor and clip.
        alive: bool of the same shape: what shares.
        context: int64 of the same shape: keys of the tokens that the entropy comes from.
        weights: of the outcome and of the entropy share.
        bounds: floor and clip of the entropies.
    """
    correct, group = rollouts.correct, rollouts.group
    moved = moved_by_bounds(entropy, alive, floor=bounds[0], clip=bounds[1])
    by_bound = {name: masked_mean(where.double(), alive) for name, where in moved.items()}
    anywhere = moved["floor"] | moved["clip_low"] | moved["clip_high"]
    metrics = {
        "shaping/conservation_gap": conservation_gap(
            shaped, alive, rollouts.reward, correct, group, weight1=weights[0], weight2=weights[1]
        ),
        "shaping/effective_sequences": effective_members(shares, alive, correct, group),
        "shaping/saturated_fraction": masked_mean(anywhere.double(), alive),
        "shaping/floor_fraction": by_bound["floor"],
        "shaping/clip_low_fraction": by_bound["clip_low"],
        "shaping/clip_high_fraction": by_bound["clip_high"],
    }
    if rollouts.advantages is not None:
        wanted = weights[1] > 0 and algorithm.share_weights != "constant"
        metrics |= _credit_diagnostics(
            rollouts,
            rollouts.advantages,
            even=even_advantages(algorithm, rollouts),
            could=shapeable(alive & wanted, context, correct, group).expand_as(rollouts.mask),
        )
    return {name: float(value) for name, value in metrics.items()}


def read_before(rollouts: Rollouts) -> Tensor:
    """[B, T + 1] int64 `context_keys` of the responses, holes of the mask included."""
    real = rollouts.attention_mask[:, -rollouts.mask.shape[1] :]
    return context_keys(rollouts.response_ids, real)


def _credit_diagnostics(
    rollouts: Rollouts, advantages: Tensor, *, even: Tensor, could: Tensor
) -> dict[str, Tensor]:
    mask, correct = rollouts.mask, rollouts.correct
    credit = _by_token(advantages, mask)
    plain = normalize_sequences(penalised_reward(rollouts), rollouts.group, alive=mask.any(dim=1))
    return {
        "shaping/sign_flips_correct": sign_flips(credit, mask, correct, 1.0),
        "shaping/sign_flips_wrong": sign_flips(credit, mask, ~correct, -1.0),
        "shaping/changed_fraction": masked_mean(differs(credit, _by_token(plain, mask)), mask),
        "shaping/shapeable_fraction": masked_mean(could.double(), mask),
        "shaping/shaped_fraction": masked_mean(differs(credit, _by_token(even, mask)), mask),
    }


def even_advantages(algorithm: ShapingAlgorithm, rollouts: Rollouts) -> Tensor:
    """[B] or [B, T] the credit that the algorithm would give if all shares of a side were even.

    Asked of the algorithm itself, so that whatever a subclass overrides takes part: once more, with
    every entropy 1 and no random placebo.
    """
    twin = copy.copy(algorithm)
    twin.share_weights = "constant"
    return twin.advantages(rollouts.replace(entropy=torch.ones_like(rollouts.entropy)))


def differs(first: Tensor, second: Tensor) -> Tensor:
    """1.0 where |first - second| > 1e-4 (1 + |second|) or either is NaN, else 0.0; float64."""
    same = torch.isclose(first.double(), second.double(), rtol=SAME_CREDIT, atol=SAME_CREDIT)
    return (~same).double()


def _by_token(advantages: Tensor, mask: Tensor) -> Tensor:
    return advantages if advantages.ndim == 2 else advantages[:, None].expand_as(mask)

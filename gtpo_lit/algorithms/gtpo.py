"""GTPO: token-level credit by dynamic entropy weighting (arXiv 2508.04349)."""

from __future__ import annotations

from typing import ClassVar, get_args

from torch import Tensor

from gtpo_lit.algorithms.algorithm import (
    LARGEST_OPTION,
    Algorithm,
    content_seed,
    group_diagnostics,
)
from gtpo_lit.algorithms.shaping_diagnostics import read_before, shaping_diagnostics
from gtpo_lit.functional.advantages import Normalisation, Scope, normalize_tokens
from gtpo_lit.functional.placebo import ShareWeights
from gtpo_lit.functional.shaping import bounded_entropy, token_rewards, token_shares
from gtpo_lit.functional.surrogate import Aggregate
from gtpo_lit.types import Rollouts


class GTPO(Algorithm):
    """In correct answers uncertain tokens earn a bonus; in wrong ones confident tokens pay more.

    At each position, the members of a group that are on the same side and still alive share a mass
    by their entropies (correct) or inverse entropies (wrong); the shaped token rewards are then
    normalised to advantages and clipped token by token, averaged over all tokens.

    Source: arXiv 2508.04349v6, Eq. 3, 5, 6 and 7. Groups whose outcomes are all alike give 0
    while the gate is on.

    Departs from the paper: `normalisation` (Eq. 6 normalises O+ and O- apart, which on 0/1 rewards
    cancels both weights; `separate` does that), `gate` (off reproduces the letter), and no clip of
    entropies unless asked for.

    Args:
        alpha1: weight of the outcome.
        alpha2: weight of the entropy share; z-scored modes see alpha2 / alpha1 only.
        normalisation: "joint", "separate" or "anchored", see `normalize_tokens`.
        scope: statistics over each group or over the whole step.
        gate: groups whose outcomes are all alike get no credit.
        entropy_floor: least entropy in the shares; 1/H is winner-take-all near 0.
        entropy_clip: [low, high] for entropies in the shares; off if not given.
        share_weights: the entropies, or a placebo in their place.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    aggregate: ClassVar[Aggregate] = "token_mean"

    def __init__(
        self,
        alpha1: float = 1.0,
        alpha2: float = 0.1,
        normalisation: Normalisation = "joint",
        scope: Scope = "group",
        gate: bool = True,
        entropy_floor: float = 0.0,
        entropy_clip: tuple[float, float] | None = None,
        share_weights: ShareWeights = "entropy",
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)
        check_weights("alpha", alpha1, alpha2)
        check_shaping(entropy_floor, entropy_clip, share_weights)
        for name, value, allowed in (
            ("normalisation", normalisation, get_args(Normalisation)),
            ("scope", scope, get_args(Scope)),
        ):
            if value not in allowed:
                raise ValueError(f"algorithm.{name} must be one of {allowed}, got {value!r}")
        self.alpha1, self.alpha2 = alpha1, alpha2
        self.normalisation, self.scope, self.gate = normalisation, scope, gate
        self.entropy_floor, self.entropy_clip = entropy_floor, entropy_clip
        self.share_weights = share_weights

    def shaped(self, rollouts: Rollouts) -> Tensor:
        """[B, T] shaped token rewards, before penalties and normalisation."""
        return token_rewards(
            rollouts.entropy,
            rollouts.mask,
            rollouts.reward,
            rollouts.correct,
            rollouts.group,
            alpha1=self.alpha1,
            alpha2=self.alpha2,
            entropy_floor=self.entropy_floor,
            entropy_clip=self.entropy_clip,
            share_weights=self.share_weights,
            seed=content_seed(rollouts),
        )

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B, T] normalised shaped rewards; a sequence's penalty is on each of its tokens."""
        shaped = self.shaped(rollouts)
        if rollouts.penalty is not None:
            shaped = shaped + rollouts.penalty[:, None]
        return normalize_tokens(
            shaped,
            rollouts.mask,
            rollouts.correct,
            rollouts.group,
            mode=self.normalisation,
            scope=self.scope,
            gate=self.gate,
            mass=self.alpha1 + self.alpha2,
        )

    def diagnostics(self, rollouts: Rollouts) -> dict[str, float]:
        """What the shaping did to the step's credit, and the groups' outcomes."""
        bounded = bounded_entropy(
            rollouts.entropy, floor=self.entropy_floor, clip=self.entropy_clip
        )
        shares, _ = token_shares(
            bounded,
            rollouts.mask,
            rollouts.correct,
            rollouts.group,
            share_weights=self.share_weights,
            seed=content_seed(rollouts),
        )
        return group_diagnostics(rollouts) | shaping_diagnostics(
            self,
            rollouts,
            shaped=self.shaped(rollouts),
            shares=shares,
            entropy=rollouts.entropy,
            alive=rollouts.mask,
            context=read_before(rollouts)[:, :-1],
            weights=(self.alpha1, self.alpha2),
            bounds=(self.entropy_floor, self.entropy_clip),
        )


def check_weights(name: str, first: float, second: float) -> None:
    """Refuse weights that shape nothing or turn credit round.

    Raises:
        ValueError: naming the weight.
    """
    if not first >= 0 or not second >= 0 or not 0 < first + second <= LARGEST_OPTION:
        raise ValueError(
            f"algorithm.{name}1 and algorithm.{name}2 must be at least 0 with a positive sum of at "
            f"most {LARGEST_OPTION:g}, got {first} and {second}"
        )


def check_shaping(
    floor: float, clip: tuple[float, float] | None, share_weights: ShareWeights
) -> None:
    """Refuse shaping options out of range.

    Raises:
        ValueError: naming the option.
    """
    if not 0 <= floor <= LARGEST_OPTION:
        raise ValueError(f"algorithm.entropy_floor must be at least 0 and finite, got {floor}")
    if clip is not None and not 0 <= clip[0] <= clip[1] <= LARGEST_OPTION:
        raise ValueError(f"algorithm.entropy_clip must be [low, high], 0 <= low <= high: {clip}")
    if share_weights not in get_args(ShareWeights):
        raise ValueError(
            f"algorithm.share_weights must be one of {get_args(ShareWeights)}, "
            f"got {share_weights!r}"
        )

"""GRPO-S: sequence-level credit by dynamic entropy weighting (arXiv 2508.04349)."""

from __future__ import annotations

from typing import ClassVar, get_args

from torch import Tensor

from gtpo_lit.algorithms.algorithm import (
    Algorithm,
    content_seed,
    group_diagnostics,
    sequence_ratio_level,
)
from gtpo_lit.algorithms.gtpo import check_shaping, check_weights
from gtpo_lit.algorithms.shaping_diagnostics import read_before, shaping_diagnostics
from gtpo_lit.functional.advantages import Scale, normalize_sequences
from gtpo_lit.functional.placebo import ShareWeights
from gtpo_lit.functional.shaping import (
    EntropyMean,
    bounded_entropy,
    sequence_entropy,
    sequence_rewards,
    token_shares,
)
from gtpo_lit.functional.surrogate import Aggregate, SequenceRatio
from gtpo_lit.types import Rollouts


class GRPOS(Algorithm):
    """Correct sequences share a bonus by mean entropy; wrong ones a malus by its inverse.

    The shaped rewards are z-scored over the group's sequences; the ratio of a sequence is the
    arithmetic mean of its token ratios, and the loss the mean over sequences.

    Source: arXiv 2508.04349v6, the section on GRPO-S. Groups whose outcomes are all alike give 0
    while the gate is on.

    Departs from the paper: `gate` (off reproduces the letter), and no clip of entropies unless
    asked for.

    Args:
        beta1: weight of the outcome.
        beta2: weight of the entropy share; z-scores see beta2 / beta1 only.
        scale: divide by the std of the group, of the batch, or not.
        gate: groups whose outcomes are all alike get no credit.
        entropy_mean: of a sequence's tokens: arithmetic, or geometric as in Appendix C.
        entropy_floor: least entropy in the shares.
        entropy_clip: [low, high] for entropies in the shares; off if not given.
        share_weights: the entropies, or a placebo in their place.
        sequence_ratio: mean of a sequence's token ratios: arithmetic, or GSPO's geometric, which
            needs far narrower clip bounds.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    aggregate: ClassVar[Aggregate] = "sequence_mean"

    def __init__(
        self,
        beta1: float = 1.0,
        beta2: float = 0.1,
        scale: Scale = "group",
        gate: bool = True,
        entropy_mean: EntropyMean = "arithmetic",
        entropy_floor: float = 0.0,
        entropy_clip: tuple[float, float] | None = None,
        share_weights: ShareWeights = "entropy",
        sequence_ratio: SequenceRatio = "arithmetic",
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)
        check_weights("beta", beta1, beta2)
        check_shaping(entropy_floor, entropy_clip, share_weights)
        for name, value, allowed in (
            ("scale", scale, get_args(Scale)),
            ("entropy_mean", entropy_mean, get_args(EntropyMean)),
        ):
            if value not in allowed:
                raise ValueError(f"algorithm.{name} must be one of {allowed}, got {value!r}")
        self.sequence_ratio = sequence_ratio
        self.ratio = sequence_ratio_level(sequence_ratio)
        self.beta1, self.beta2 = beta1, beta2
        self.scale, self.gate, self.entropy_mean = scale, gate, entropy_mean
        self.entropy_floor, self.entropy_clip = entropy_floor, entropy_clip
        self.share_weights = share_weights

    def shaped(self, rollouts: Rollouts) -> Tensor:
        """[B] shaped sequence rewards, before penalties and normalisation."""
        return sequence_rewards(
            rollouts.entropy,
            rollouts.mask,
            rollouts.reward,
            rollouts.correct,
            rollouts.group,
            beta1=self.beta1,
            beta2=self.beta2,
            entropy_mean=self.entropy_mean,
            entropy_floor=self.entropy_floor,
            entropy_clip=self.entropy_clip,
            share_weights=self.share_weights,
            seed=content_seed(rollouts),
        )

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] z-scores of the shaped rewards, penalties included, within each group."""
        shaped = self.shaped(rollouts)
        return normalize_sequences(
            shaped if rollouts.penalty is None else shaped + rollouts.penalty,
            rollouts.group,
            scale=self.scale,
            correct=rollouts.correct,
            gate=self.gate,
            alive=rollouts.mask.any(dim=1),
        )

    def diagnostics(self, rollouts: Rollouts) -> dict[str, float]:
        """What the shaping did to the step's credit, and the groups' outcomes."""
        plain = sequence_entropy(rollouts.entropy, rollouts.mask, mean=self.entropy_mean)[:, None]
        bounded = bounded_entropy(plain, floor=self.entropy_floor, clip=self.entropy_clip)
        alive = rollouts.mask.any(dim=1, keepdim=True)
        shares, _ = token_shares(
            bounded,
            alive,
            rollouts.correct,
            rollouts.group,
            share_weights=self.share_weights,
            seed=content_seed(rollouts),
        )
        return group_diagnostics(rollouts) | shaping_diagnostics(
            self,
            rollouts,
            shaped=self.shaped(rollouts)[:, None],
            shares=shares,
            entropy=plain,
            alive=alive,
            context=read_before(rollouts)[:, -1:],
            weights=(self.beta1, self.beta2),
            bounds=(self.entropy_floor, self.entropy_clip),
        )

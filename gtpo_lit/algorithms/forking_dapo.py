"""DAPO on forking tokens: gradient for the most uncertain tokens only (arXiv 2506.01939)."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from torch import Tensor

from gtpo_lit.algorithms.dapo import DAPO
from gtpo_lit.functional.selection import top_entropy_mask
from gtpo_lit.functional.surrogate import count_units
from gtpo_lit.types import Rollouts

Denominator = Literal["selected", "all"]


class ForkingDAPO(DAPO):
    """DAPO whose loss keeps the top `fraction` of a mini-batch's tokens by current entropy.

    Source: Wang et al., arXiv 2506.01939, Eq. 6; the threshold is over the whole mini-batch on all
    ranks. Groups of equal total rewards give 0.

    Args:
        fraction: share of tokens kept.
        denominator_over: divide by the selected tokens, as the official code does, or by all.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if null.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    selects_by_current_entropy: ClassVar[bool] = True

    def __init__(
        self,
        fraction: float = 0.2,
        denominator_over: Denominator = "selected",
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float | None = 10.0,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)
        if not 0 < fraction <= 1:
            raise ValueError(f"algorithm.fraction must be in (0, 1], got {fraction}")
        if denominator_over not in get_args(Denominator):
            raise ValueError(
                f"algorithm.denominator_over must be one of {get_args(Denominator)}, "
                f"got {denominator_over!r}"
            )
        self.fraction = fraction
        self.denominator_over = denominator_over

    def select(self, rollouts: Rollouts) -> Tensor:
        """[B, T] bool: the loss tokens of highest entropy."""
        return top_entropy_mask(rollouts.entropy, rollouts.loss_mask, self.fraction)

    def denominator(self, rollouts: Rollouts, selected: Tensor) -> Tensor:
        """[] Selected tokens, or all tokens that could have been: what a filter masked is out."""
        counted = selected if self.denominator_over == "selected" else rollouts.loss_mask
        return count_units(counted, self.aggregate)

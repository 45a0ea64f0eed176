"""Dr.GRPO: no std, no length normalisation (arXiv 2503.20783)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gtpo_lit.algorithms.algorithm import Algorithm, penalised_reward
from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.surrogate import Aggregate
from gtpo_lit.types import Rollouts


class DrGRPO(Algorithm):
    """Rewards minus their group's mean; token sums divided by a constant length.

    Source: Liu et al., arXiv 2503.20783, section 3.2. Groups of equal total rewards give 0.

    Args:
        max_length: the constant that token sums are divided by: the response limit.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    aggregate: ClassVar[Aggregate] = "constant_length"
    uses_entropy: ClassVar[bool] = False

    def __init__(
        self,
        max_length: int,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)
        if not 1 <= max_length < 2**31:
            raise ValueError(
                f"algorithm.max_length must be at least 1 and below 2^31, got {max_length}"
            )
        self.max_length = max_length

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] total rewards minus the mean of their group."""
        return normalize_sequences(
            penalised_reward(rollouts),
            rollouts.group,
            scale="none",
            alive=rollouts.mask.any(dim=1),
        )

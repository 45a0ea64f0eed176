"""GSPO: the importance ratio of whole sequences (arXiv 2507.18071)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gtpo_lit.algorithms.algorithm import (
    Algorithm,
    penalised_reward,
    sequence_ratio_level,
)
from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.surrogate import Aggregate, SequenceRatio
from gtpo_lit.types import Rollouts


class GSPO(Algorithm):
    """GRPO's advantages with the geometric mean of a sequence's token ratios as its ratio.

    Source: Zheng et al., arXiv 2507.18071, Eq. 5 to 7. Groups of equal total rewards give 0. The
    narrow clip bounds fit the geometric mean, whose logarithm is a mean over the sequence.

    Args:
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
        sequence_ratio: mean of a sequence's token ratios: geometric, or GRPO-S's arithmetic.
    """

    aggregate: ClassVar[Aggregate] = "sequence_mean"
    uses_entropy: ClassVar[bool] = False

    def __init__(
        self,
        clip_low: float = 3e-4,
        clip_high: float = 4e-4,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
        sequence_ratio: SequenceRatio = "geometric",
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)
        self.sequence_ratio = sequence_ratio
        self.ratio = sequence_ratio_level(sequence_ratio)

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] z-scores of the total rewards within each group."""
        return normalize_sequences(
            penalised_reward(rollouts), rollouts.group, alive=rollouts.mask.any(dim=1)
        )

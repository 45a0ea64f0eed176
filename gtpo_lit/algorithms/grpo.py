"""GRPO: rewards relative to their group (arXiv 2402.03300)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gtpo_lit.algorithms.algorithm import Algorithm, penalised_reward
from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.surrogate import Aggregate
from gtpo_lit.types import Rollouts


class GRPO(Algorithm):
    """Every token of a sequence gets (r - mean of its group) / (std + 1e-6); mean over sequences.

    Source: Shao et al., arXiv 2402.03300, Eq. 3 and section 4.1.2. Groups of equal total rewards
    give 0. Departs from the paper: the KL term is the module's (`model.kl_weight`).

    Args:
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    aggregate: ClassVar[Aggregate] = "sequence_mean"
    uses_entropy: ClassVar[bool] = False

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] z-scores of the total rewards within each group."""
        return normalize_sequences(
            penalised_reward(rollouts), rollouts.group, alive=rollouts.mask.any(dim=1)
        )

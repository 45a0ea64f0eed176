"""DAPO: clip-higher, token mean, dual clip (arXiv 2503.14476)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from gtpo_lit.algorithms.algorithm import Algorithm, penalised_reward
from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.surrogate import Aggregate
from gtpo_lit.types import Rollouts


class DAPO(Algorithm):
    """GRPO's advantages under an upper clip wider than the lower one, averaged over tokens.

    Source: Yu et al., arXiv 2503.14476, Eq. 8 and 9; the dual clip is of its public recipe. Groups
    of equal total rewards give 0. Dynamic sampling and the overlong punishment belong to the data.

    Args:
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if null.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss.
    """

    aggregate: ClassVar[Aggregate] = "token_mean"
    uses_entropy: ClassVar[bool] = False

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float | None = 10.0,
        entropy_bonus: float = 0.0,
    ) -> None:
        super().__init__(clip_low, clip_high, dual_clip, entropy_bonus)

    def advantages(self, rollouts: Rollouts) -> Tensor:
        """[B] z-scores of the total rewards within each group."""
        return normalize_sequences(
            penalised_reward(rollouts), rollouts.group, alive=rollouts.mask.any(dim=1)
        )

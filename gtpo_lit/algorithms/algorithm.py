"""What every algorithm is: credit, a ratio level, clip bounds and an aggregation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from gtpo_lit.functional.surrogate import Aggregate, Ratio, count_units, policy_loss
from gtpo_lit.types import LossOutput, Rollouts


class Algorithm(ABC):
    """Base class. A new idea overrides `advantages`, and sets class attributes if it must.

    Attributes:
        ratio: level of the importance ratio.
        aggregate: how token losses become one number.
        needs_entropy: whether `advantages` reads `rollouts.entropy`.
    """

    ratio: ClassVar[Ratio] = "token"
    aggregate: Aggregate = "token_mean"
    needs_entropy: ClassVar[bool] = False
    selects_by_current_entropy: ClassVar[bool] = False

    def __init__(
        self,
        *,
        clip_low: float = 0.2,
        clip_high: float = 0.2,
        dual_clip: float | None = None,
        max_length: int | None = None,
    ) -> None:
        if not 0 < clip_low <= 1:
            raise ValueError(f"clip_low must be in (0, 1], got {clip_low}")
        if clip_high <= 0:
            raise ValueError(f"clip_high must be positive, got {clip_high}")
        if dual_clip is not None and dual_clip <= 1:
            raise ValueError(f"dual_clip must be above 1 or null, got {dual_clip}")
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.dual_clip = dual_clip
        self.max_length = max_length

    @abstractmethod
    def advantages(self, rollouts: Rollouts) -> Tensor:
        """Credit for whole groups: [B], or [B, T] with zeros where `rollouts.mask` is false."""

    def diagnostics(self, rollouts: Rollouts) -> dict[str, float]:
        """Numbers about the credit of a whole step, logged as `train/<name>`."""
        return {}

    def select(self, rollouts: Rollouts) -> Tensor:
        """[B, T] bool: the loss mask of a whole mini-batch, all ranks together."""
        return rollouts.loss_mask

    def denominator(self, rollouts: Rollouts) -> Tensor:
        """[] float32: what the mini-batch's loss is divided by, after `select`."""
        return count_units(rollouts.loss_mask, self.aggregate)

    def loss(self, logp: Tensor, entropy: Tensor, batch: Rollouts) -> LossOutput:
        """The clipped surrogate of one micro-batch; `entropy` [B, T] is the current policy's."""
        assert batch.advantages is not None
        loss, metrics = policy_loss(
            logp,
            batch.logp_old,
            batch.advantages,
            batch.loss_mask,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip,
            ratio=self.ratio,
            aggregate=self.aggregate,
            max_length=self.max_length,
            denominator=batch.denominator,
        )
        return LossOutput(loss=loss, metrics=metrics)

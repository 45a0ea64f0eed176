"""Length penalties as options of the data side: added to the reward after any shaping."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from gtpo_lit.algorithms.algorithm import LARGEST_OPTION
from gtpo_lit.functional.overlong import group_relative_penalty, soft_penalty
from gtpo_lit.types import Rollouts


class LengthPenalty(ABC):
    """A penalty on long responses, computed on whole groups."""

    def check(self, max_tokens: int) -> None:  # noqa: B027 (most have nothing to check)
        """Raise ValueError if the penalty makes no sense for responses of up to `max_tokens`."""

    @abstractmethod
    def penalty(self, rollouts: Rollouts, max_tokens: int) -> Tensor:
        """[B] float32, never positive, for responses of up to `max_tokens` tokens."""


class SoftOverlong(LengthPenalty):
    """DAPO's soft overlong punishment (arXiv 2503.14476, Eq. 13).

    0 up to `buffer` tokens before the limit, then falling evenly to -`factor` at the limit.

    Args:
        buffer: length of the slope, in tokens.
        factor: depth of the penalty.
        max_length: the limit; `data.sampling.max_tokens` if not given.
    """

    def __init__(self, buffer: int, factor: float = 1.0, max_length: int | None = None) -> None:
        self.buffer, self.factor, self.max_length = buffer, factor, max_length
        if max_length is not None and max_length < 1:
            raise ValueError(f"length_penalties: max_length must be at least 1, got {max_length}")
        if not buffer >= 1:
            raise ValueError(f"length_penalties: buffer must be at least 1, got {buffer}")
        if not 0 <= factor <= LARGEST_OPTION:
            raise ValueError(
                f"length_penalties: factor must be at least 0 and finite, got {factor}"
            )

    def check(self, max_tokens: int) -> None:
        """Raise ValueError for a slope longer than the limit, or one that nothing can reach."""
        limit = self.max_length or max_tokens
        if self.buffer > limit:
            raise ValueError(
                f"length_penalties: buffer = {self.buffer} is longer than the longest response, "
                f"{limit} tokens"
            )
        if limit - self.buffer >= max_tokens:
            raise ValueError(
                f"length_penalties: with max_length = {limit} and buffer = {self.buffer} the "
                f"penalty begins beyond {limit - self.buffer} tokens, which responses of at most "
                f"data.sampling.max_tokens = {max_tokens} never reach"
            )

    def penalty(self, rollouts: Rollouts, max_tokens: int) -> Tensor:
        """[B] float32 in [-factor, 0]."""
        return soft_penalty(
            rollouts.length,
            max_length=self.max_length or max_tokens,
            buffer=self.buffer,
            factor=self.factor,
        ).float()


class GroupRelativeOverlong(LengthPenalty):
    """GROP: long answers of groups that can be solved pay (arXiv 2508.04349, Appendix D).

    Args:
        gamma: solve rate from which a group is easy; at most 1 - gamma is hard and pays nothing.
    """

    def __init__(self, gamma: float = 0.8) -> None:
        if not 0.5 < gamma <= 1:
            raise ValueError(f"length_penalties: gamma must be in (0.5, 1], got {gamma}")
        self.gamma = gamma

    def penalty(self, rollouts: Rollouts, max_tokens: int) -> Tensor:
        """[B] float32 in [-1/2, 0]."""
        return group_relative_penalty(
            rollouts.length, rollouts.correct, rollouts.group, gamma=self.gamma
        ).float()

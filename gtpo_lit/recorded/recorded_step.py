"""One RL step as it was recorded: its rollouts with their credit, and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gtpo_lit.types import Rollouts


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedSequence:
    """What a sequence says in words, beside its row of the tensors."""

    problem: str
    """Id of the problem."""
    source: str
    """Name of the problem set."""
    reference: str
    """The reference answer."""
    sample: int
    """Number of the completion within its group, from 0."""
    prompt: str
    """The prompt as text, special tokens shown."""
    text: str
    """The response decoded without special tokens."""
    answer: str | None
    """What the accuracy reward found in the response; None where it found or looked for nothing."""
    pieces: tuple[str, ...]
    """The text that each response token adds, special tokens shown. A token that ends inside a
    character is "" and the one that completes it holds the character, so that all pieces joined
    are the response."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedStep:
    """A whole RL step of all ranks. B sequences, T response positions.

    Row k of every tensor belongs to `sequences[k]`.
    """

    step: int
    """The RL step, from 1."""
    algorithm: str
    """Class path of the algorithm that gave the credit."""
    settings: Mapping[str, Any]
    """Its options."""
    rollouts: Rollouts
    """The step with `advantages` [B] or [B, T]; `denominator` is never recorded."""
    shaped: Tensor | None
    """[B] or [B, T] float32: rewards after dynamic entropy weighting, before penalties and
    normalisation; None for an algorithm that does not shape."""
    sequences: tuple[RecordedSequence, ...]

    @property
    def token_advantages(self) -> Tensor:
        """[B, T] float32: the advantage of every token, 0 where masked."""
        assert self.rollouts.advantages is not None
        return by_token(self.rollouts.advantages, self.rollouts.mask)

    @property
    def token_shaped(self) -> Tensor | None:
        """[B, T] float32: the shaped reward of every token, 0 where masked; None if not shaped."""
        return None if self.shaped is None else by_token(self.shaped, self.rollouts.mask)


def by_token(values: Tensor, mask: Tensor) -> Tensor:
    """[B, T]: numbers of sequences [B] or of tokens [B, T] at every token, 0 where masked.

    >>> by_token(torch.tensor([2.0]), torch.tensor([[True, False]]))
    tensor([[2., 0.]])
    """
    spread = values if values.ndim == 2 else values[:, None].expand(mask.shape)
    return torch.where(mask, spread, 0.0)

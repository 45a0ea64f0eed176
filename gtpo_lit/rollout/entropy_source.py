"""Where the entropies of the sampling policy come from, and who may do without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.rollout.collate import engine_entropy
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.types import Graded, Rollouts

EntropySource = Literal["recompute", "sampler", "none"]


def prepare_entropies(source: EntropySource, sampler: Sampler, algorithm: Algorithm) -> None:
    """Ask the engine for entropies if they are to come from it, and refuse what cannot work.

    Raises:
        ValueError: an engine that cannot tell entropies, or no entropies for an algorithm that
            shapes credit by them; naming ``data.entropy_source`` and engine or algorithm.
    """
    if source == "sampler":
        sampler.ask_for_entropies()
    if source == "none" and algorithm.uses_entropy:
        raise ValueError(
            f"data.entropy_source = 'none', but model.algorithm {type(algorithm).__name__} shapes "
            "credit by entropies: use recompute or sampler (an algorithm that never reads them "
            "says so by uses_entropy = False)"
        )


def given_entropies(
    source: EntropySource, rollouts: Rollouts, graded: Sequence[Graded], sampler: Sampler
) -> Tensor:
    """[B, T] float32 entropies that the policy need not compute, 0 where masked.

    Those of the sampler in nats, or NaN if there are none, so that nobody takes them for numbers.

    Raises:
        ValueError: if the engine reported none although it was asked.
    """
    entropy: Tensor | None = torch.full(rollouts.mask.shape, torch.nan)
    if source == "sampler":
        entropy = engine_entropy(graded, rollouts.mask.shape[1])
    if entropy is None:
        raise ValueError(
            f"data.entropy_source = 'sampler', but {type(sampler).__name__} reported no entropies"
        )
    return entropy.masked_fill(~rollouts.mask, 0.0)

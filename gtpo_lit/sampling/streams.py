"""Random streams that belong to a sample, whatever machine, batch or row draws it."""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

from gtpo_lit.functional.noise import GOLDEN, mix_, uniform_noise


def stream_seed(*parts: int | str) -> int:
    """A 63-bit seed, the BLAKE2b hash of `parts`.

    A rollout hashes (seed, phase, step, place, sample): the run's seed, "train" or the name of a
    validation set, the RL step, the problem's place in the step, the sample's place in its group.

    >>> stream_seed(0, "train", 3, 5, 1)
    1820030755237253106
    >>> stream_seed(1, 23) == stream_seed(12, 3)
    False
    """
    digest = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def gumbel_noise(seeds: Tensor, step: int, size: int) -> Tensor:
    """Standard Gumbel noise, a pure function of (seed, step, index).

    The argmax of log-probs plus this noise is a draw from their distribution. Every number is a
    splitmix64 hash, so that rows can be drawn in any batch, and on any device, without state.

    Args:
        seeds: [N] int64, one stream a row.
        step: index of the token in its response.
        size: V, numbers a row.

    Returns:
        [N, V] float64: float32 has too few numbers near 1 for a large vocabulary.
    """
    starts = mix_(seeds + GOLDEN * torch.full_like(seeds, step + 1))
    return uniform_noise(starts, size).log_().neg_().log_().neg_()

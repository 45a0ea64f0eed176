"""Random streams that belong to a sample, whatever machine, batch or row draws it."""

from __future__ import annotations

from hashlib import blake2b

import torch
from torch import Tensor

# The constants of splitmix64 (Steele, Lea, Flood 2014), as signed 64-bit numbers.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
MIX_2 = 0x94D049BB133111EB - 2**64


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
    start = _mix_(seeds + GOLDEN * torch.full_like(seeds, step + 1))
    index = torch.arange(1, size + 1, device=seeds.device)
    bits = _mix_(start[:, None] + GOLDEN * index)
    # 52 bits and a half are exact in float64, so that no number is 0 or 1.
    uniform: Tensor = _shift_right(bits, 12).double().add_(0.5).mul_(2.0**-52)
    return uniform.log_().neg_().log_().neg_()


def _mix_(bits: Tensor) -> Tensor:
    """The finaliser of splitmix64, in place; products wrap around at 64 bits."""
    bits.bitwise_xor_(_shift_right(bits, 30)).mul_(MIX_1)
    bits.bitwise_xor_(_shift_right(bits, 27)).mul_(MIX_2)
    return bits.bitwise_xor_(_shift_right(bits, 31))


def _shift_right(bits: Tensor, places: int) -> Tensor:
    """Unsigned shift of int64 numbers."""
    return (bits >> places).bitwise_and_(2 ** (64 - places) - 1)

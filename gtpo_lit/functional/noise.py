"""Random numbers that are a pure function of a seed and a place: splitmix64 as a hash."""

from __future__ import annotations

import torch
from torch import Tensor

# The constants of splitmix64 (Steele, Lea, Flood 2014), as signed 64-bit numbers.
GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MIX_1 = 0xBF58476D1CE4E5B9 - 2**64
MIX_2 = 0x94D049BB133111EB - 2**64


def mix_(bits: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64 numbers, in place; products wrap around at 64 bits."""
    bits.bitwise_xor_(_shift_right(bits, 30)).mul_(MIX_1)
    bits.bitwise_xor_(_shift_right(bits, 27)).mul_(MIX_2)
    return bits.bitwise_xor_(_shift_right(bits, 31))


def uniform_noise(seeds: Tensor, size: int) -> Tensor:
    """Uniform numbers in (0, 1), a pure function of (seed, index).

    Every number is a hash, so that rows can be drawn in any batch or order, and on any device,
    without state; the first numbers of a row do not depend on `size`.

    Args:
        seeds: [N] int64, one stream a row.
        size: numbers a row.

    Returns:
        [N, size] float64.

    Example:
        >>> uniform_noise(torch.tensor([7]), 2).equal(uniform_noise(torch.tensor([7]), 3)[:, :2])
        True
    """
    index = torch.arange(1, size + 1, device=seeds.device)
    bits = mix_(seeds[:, None] + GOLDEN * index)
    # 52 bits and a half are exact in float64, so that no number is 0 or 1.
    return _shift_right(bits, 12).double().add_(0.5).mul_(2.0**-52)


def row_hash(ids: Tensor, present: Tensor) -> Tensor:
    """[B] int64: a hash of each row's present ids in their order, whatever the padding.

    Args:
        ids: [B, L] int64.
        present: [B, L] bool; what is not present counts as if it were not there.
    """
    place = present.long().cumsum(dim=1)
    hashes = mix_((ids + 1) * MIX_2 + place * GOLDEN)
    return mix_(torch.where(present, hashes, 0).sum(dim=1))


def _shift_right(bits: Tensor, places: int) -> Tensor:
    """Unsigned shift of int64 numbers."""
    return (bits >> places).bitwise_and_(2 ** (64 - places) - 1)

from __future__ import annotations

import math

import torch

from gtpo_lit.sampling.streams import gumbel_noise, stream_seed

MASK = 2**64 - 1


def splitmix(state: int) -> int:
    """The reference finaliser of splitmix64, in unbounded integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & MASK
    return state ^ (state >> 31)


def test_seeds_are_63_bits_and_differ():
    seeds = {
        stream_seed(seed, phase, step, place, sample)
        for seed in range(2)
        for phase in ("train", "val")
        for step in range(5)
        for place in range(5)
        for sample in range(5)
    }
    assert len(seeds) == 500
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert stream_seed("1") != stream_seed(1)
    assert stream_seed(1, 23) != stream_seed(12, 3)


def test_noise_equals_the_reference_hash():
    seed, step, size = stream_seed(0, "train", 1, 2, 3), 4, 6
    got = gumbel_noise(torch.tensor([7, seed]), step, size)[1]
    golden = 0x9E3779B97F4A7C15
    start = splitmix((seed + (step + 1) * golden) & MASK)
    for index in range(size):
        bits = splitmix((start + (index + 1) * golden) & MASK)
        uniform = ((bits >> 12) + 0.5) / 2**52
        assert math.isclose(got[index].item(), -math.log(-math.log(uniform)), rel_tol=1e-12)


def test_noise_is_gumbel_and_independent_over_seeds_steps_and_indices():
    seeds = torch.tensor([stream_seed(row) for row in range(500)])
    noise = torch.stack([gumbel_noise(seeds, step, 40) for step in range(5)])
    # 100,000 numbers: uniform in 20 bins, chi-square with 19 degrees, 43.8 is the 0.1 % point.
    uniform = torch.exp(-torch.exp(-noise)).flatten()
    counts = torch.histc(uniform.float(), 20, 0, 1)
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8
    centred = uniform.view(noise.shape) - 0.5
    for one, other in (
        (centred[1:], centred[:-1]),
        (centred[:, 1:], centred[:, :-1]),
        (centred[..., 1:], centred[..., :-1]),
    ):
        correlation = 12 * (one * other).mean()  # standard deviation below 0.0036
        assert abs(correlation) < 0.013


def test_noise_is_finite_at_both_ends():
    seeds = torch.tensor([0, 2**63 - 1])
    assert torch.isfinite(gumbel_noise(seeds, 0, 100_000)).all()

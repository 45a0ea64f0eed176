"""Counter-based noise: the reference stream of splitmix64, and what rows depend on."""

import torch

from gtpo_lit.functional.noise import row_hash, uniform_noise

MASK = 2**64 - 1


def splitmix64(seed, count):
    """The published generator, in plain integers."""
    state, numbers = seed, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        numbers.append(z ^ (z >> 31))
    return numbers


def test_noise_is_the_published_generator():
    for seed in (0, 7, 2**63 - 1):
        wanted = [((number >> 12) + 0.5) / 2**52 for number in splitmix64(seed, 5)]
        assert uniform_noise(torch.tensor([seed]), 5)[0].tolist() == wanted


def test_a_row_depends_on_its_own_seed_alone():
    seeds = torch.tensor([3, 9, 3])
    noise = uniform_noise(seeds, 4)
    assert torch.equal(noise[0], noise[2])
    assert torch.equal(noise[[1, 0]], uniform_noise(seeds[[1, 0]], 4))
    assert bool((noise[0] != noise[1]).all())


def test_the_hash_of_a_row_ignores_padding_and_sees_order():
    ids = torch.tensor([[0, 5, 6, 7], [5, 6, 7, 0], [6, 5, 7, 0], [5, 6, 7, 0], [5, 6, 0, 0]])
    present = torch.tensor(
        [[0, 1, 1, 1], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]]
    ).bool()
    first, moved, swapped, longer, shorter = row_hash(ids, present).tolist()
    assert first == moved
    assert len({first, swapped, longer, shorter}) == 4

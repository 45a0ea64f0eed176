"""Eq. 3 and 5 by hand, against plain loops in float64, and at their edges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.functional.conservation import conservation_gap
from gtpo_lit.functional.shaping import (
    bounded_entropy,
    sequence_entropy,
    sequence_rewards,
    token_rewards,
)

LARGEST_ENTROPY = math.log(151_936)


def loop_token_rewards(entropy, mask, reward, correct, group, alpha1, alpha2):
    """The formulas as printed, one token at a time."""
    rows, columns = entropy.shape
    out = torch.zeros(rows, columns, dtype=torch.float64)
    for i in range(rows):
        for t in range(columns):
            if not mask[i, t]:
                continue
            alive = [
                k
                for k in range(rows)
                if group[k] == group[i] and correct[k] == correct[i] and mask[k, t]
            ]
            values = [float(entropy[k, t]) for k in alive]
            own = float(entropy[i, t])
            if correct[i]:
                total = sum(values)
                share = own / total if total > 0 else 1 / len(alive)
                out[i, t] = alpha1 * float(reward[i]) + alpha2 * share * len(alive)
            else:
                least = min(values)
                if least == 0:
                    share = (own == 0) / values.count(0.0)
                else:
                    share = (least / own) / sum(least / value for value in values)
                out[i, t] = -alpha1 - alpha2 * share * len(alive)
    return out


@st.composite
def groups(draw):
    """Ragged rows with holes, interleaved groups of any size, entropies from denormal to ln V."""
    rows, columns = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    values = st.one_of(
        st.sampled_from([0.0, 5e-324, 1e-310, 1e-30, LARGEST_ENTROPY]),
        st.floats(1e-6, LARGEST_ENTROPY),
    )
    table = lambda of: torch.tensor(  # noqa: E731
        draw(
            st.lists(st.lists(of, min_size=columns, max_size=columns), min_size=rows, max_size=rows)
        )
    )
    row = lambda of: torch.tensor(draw(st.lists(of, min_size=rows, max_size=rows)))  # noqa: E731
    return {
        "entropy": table(values).double(),
        "mask": table(st.booleans()),
        "reward": row(st.sampled_from([1.0, 0.6, 2.0])).double(),
        "correct": row(st.booleans()),
        "group": row(st.sampled_from([3, 7])),
    }


@given(case=groups(), alphas=st.sampled_from([(1.0, 0.1), (0.9, 0.1), (1.0, 0.0), (0.0, 1.0)]))
def test_token_rewards_equal_the_plain_loop(case, alphas):
    found = token_rewards(**case, alpha1=alphas[0], alpha2=alphas[1])
    wanted = loop_token_rewards(**case, alpha1=alphas[0], alpha2=alphas[1])
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


@given(case=groups())
def test_mass_is_conserved(case):
    shaped = token_rewards(**case, alpha1=0.9, alpha2=0.1)
    sides = {name: case[name] for name in ("mask", "reward", "correct", "group")}
    assert conservation_gap(shaped, **sides, weight1=0.9, weight2=0.1) <= 1e-12


def test_equation_3_by_hand():
    """H = 3 and 1, both alive: 1 + 0.1 * 2 * 3/4 = 1.15 and 1 + 0.1 * 2 * 1/4 = 1.05."""
    found = token_rewards(
        torch.tensor([[3.0, 2.0], [1.0, 9.0]]).double(),
        torch.tensor([[True, True], [True, False]]),
        torch.ones(2).double(),
        torch.tensor([True, True]),
        torch.tensor([0, 0]),
    )
    torch.testing.assert_close(found, torch.tensor([[1.15, 1.1], [1.05, 0.0]]).double())


def test_equation_5_by_hand():
    """H = 1 and 3: shares 3/4 and 1/4, so -1 - 0.1 * 2 * 3/4 = -1.15 and -1.05."""
    found = token_rewards(
        torch.tensor([[1.0], [3.0]]).double(),
        torch.ones(2, 1).bool(),
        torch.zeros(2).double(),
        torch.tensor([False, False]),
        torch.tensor([0, 0]),
    )
    torch.testing.assert_close(found, torch.tensor([[-1.15], [-1.05]]).double())


def test_exact_zeros_split_the_wrong_side_equally_and_a_dead_correct_side_shares_equally():
    mask, group = torch.ones(3, 1).bool(), torch.zeros(3).long()
    wrong = token_rewards(
        torch.tensor([[0.0], [0.0], [1.0]]), mask, torch.zeros(3), torch.zeros(3).bool(), group
    )
    torch.testing.assert_close(wrong, torch.tensor([[-1.15], [-1.15], [-1.0]]))
    right = token_rewards(torch.zeros(3, 1), mask, torch.ones(3), torch.ones(3).bool(), group)
    torch.testing.assert_close(right, torch.full((3, 1), 1.1))


def test_nan_is_not_taken_for_zero():
    entropy = torch.tensor([[1.0, 2.0], [3.0, float("nan")], [float("nan"), 1.0], [2.0, 4.0]])
    correct = torch.tensor([True, True, False, False])
    shaped = token_rewards(
        entropy, torch.ones(4, 2).bool(), correct.float(), correct, torch.zeros(4).long()
    )
    assert shaped.isnan().tolist() == [[False, True], [False, True], [True, False], [True, False]]
    torch.testing.assert_close(shaped[:2, 0], torch.tensor([1.05, 1.15]))
    torch.testing.assert_close(shaped[2:, 1], torch.tensor([-1.16, -1.04]))


def test_float32_denormals_neither_overflow_nor_lose_mass():
    entropy = torch.tensor([[1e-45], [1e-38], [11.9]])
    mask, group = torch.ones(3, 1).bool(), torch.zeros(3).long()
    shaped = token_rewards(entropy, mask, torch.zeros(3), torch.zeros(3).bool(), group)
    torch.testing.assert_close(shaped, torch.tensor([[-1.3], [-1.0], [-1.0]]), atol=1e-6, rtol=0)


def test_sequence_rewards_by_hand():
    """Means 2 and 1 (correct), 1 and 3 (wrong)."""
    found = sequence_rewards(
        torch.tensor([[3.0, 1.0], [1.0, 9.0], [1.0, 1.0], [3.0, 3.0]]).double(),
        torch.tensor([[1, 1], [1, 0], [1, 1], [1, 1]]).bool(),
        torch.tensor([1.0, 1.0, 0.0, 0.0]).double(),
        torch.tensor([True, True, False, False]),
        torch.zeros(4).long(),
    )
    wanted = [1 + 0.2 * 2 / 3, 1 + 0.2 / 3, -1 - 0.2 * 3 / 4, -1 - 0.2 / 4]
    torch.testing.assert_close(found, torch.tensor(wanted).double())


def test_sequence_entropy_means():
    entropy, mask = torch.tensor([[4.0, 1.0, 7.0], [2.0, 0.0, 1.0]]), torch.tensor([[1, 1, 0]] * 2)
    arithmetic = sequence_entropy(entropy, mask.bool())
    torch.testing.assert_close(arithmetic, torch.tensor([2.5, 1.0]))
    geometric = sequence_entropy(entropy, mask.bool(), mean="geometric")
    torch.testing.assert_close(geometric, torch.tensor([2.0, 0.0]))
    assert sequence_entropy(entropy, torch.zeros(2, 3).bool(), mean="geometric").tolist() == [0, 0]


def test_floor_and_clip():
    entropy = torch.tensor([0.0, 0.25, 3.0])
    assert bounded_entropy(entropy, floor=0.1).tolist() == pytest.approx([0.1, 0.25, 3.0])
    assert bounded_entropy(entropy, clip=(0.2, 0.28)).tolist() == pytest.approx([0.2, 0.25, 0.28])
    with pytest.raises(ValueError, match=r"entropy_floor .*-1"):
        bounded_entropy(entropy, floor=-1)
    with pytest.raises(ValueError, match="entropy_clip"):
        bounded_entropy(entropy, clip=(0.3, 0.2))


def _case(seed=0):
    generator = torch.Generator().manual_seed(seed)
    entropy = torch.rand(6, 4, generator=generator).double() + 0.1
    mask = torch.rand(6, 4, generator=generator) < 0.8
    correct = torch.tensor([True, False, True, True, False, False])
    return entropy, mask, correct.double(), correct, torch.zeros(6).long()


@pytest.mark.parametrize("kind", ["shuffled", "random", "constant", "inverted"])
def test_placebos_keep_the_mass(kind):
    entropy, mask, reward, correct, group = _case()
    shaped = token_rewards(entropy, mask, reward, correct, group, share_weights=kind, seed=5)
    gap = conservation_gap(shaped, mask, reward, correct, group, weight1=1.0, weight2=0.1)
    assert gap <= 1e-12


def test_constant_placebo_is_alpha2_zero_up_to_the_mass():
    entropy, mask, reward, correct, group = _case()
    shaped = token_rewards(entropy, mask, reward, correct, group, share_weights="constant")
    wanted = torch.where(correct, 1.1, -1.1)[:, None].double() * mask
    torch.testing.assert_close(shaped, wanted)


def test_shuffled_placebo_permutes_the_rewards_of_a_side_at_each_position():
    entropy, mask, reward, correct, group = _case()
    mask = torch.ones_like(mask)
    plain = token_rewards(entropy, mask, reward, correct, group)
    shuffled = token_rewards(
        entropy, mask, reward, correct, group, share_weights="shuffled", seed=1
    )
    for side in (correct, ~correct):
        torch.testing.assert_close(shuffled[side].sort(dim=0)[0], plain[side].sort(dim=0)[0])
    assert (shuffled != plain).double().mean() > 0.3


def test_inverted_placebo_swaps_the_rules():
    entropy, mask, reward, correct, group = _case()
    ones = torch.ones_like(mask)
    inverted = token_rewards(entropy, ones, reward, correct, group, share_weights="inverted")
    swapped = token_rewards(entropy, ones, 1 - reward, ~correct, group)
    torch.testing.assert_close(inverted[correct] - 1, -(swapped[correct] + 1))


def test_group_order_does_not_matter():
    entropy, mask, reward, correct, _ = _case()
    group = torch.tensor([4, 9, 4, 9, 4, 9])
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    plain = token_rewards(entropy, mask, reward, correct, group)
    mixed = token_rewards(entropy[order], mask[order], reward[order], correct[order], group[order])
    torch.testing.assert_close(mixed, plain[order], rtol=0, atol=1e-15)

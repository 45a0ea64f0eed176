"""Reward mass, effective members and sign flips, by hand."""

import math

import pytest
import torch

from gtpo_lit.functional.conservation import conservation_gap, effective_members, sign_flips

# Two right and two wrong sequences; the second right one ends after one token.
MASK = torch.tensor([[1, 1], [1, 0], [1, 1], [1, 1]]).bool()
CORRECT = torch.tensor([True, True, False, False])
REWARD = torch.tensor([1.0, 1.0, 0.0, 0.0])
GROUP = torch.zeros(4).long()
SHAPED = torch.tensor([[1.15, 1.1], [1.05, 7.0], [-1.15, -1.1], [-1.05, -1.1]])


def gap(shaped=SHAPED, mask=MASK, reward=REWARD, correct=CORRECT, group=GROUP, weights=(1.0, 0.1)):
    found = conservation_gap(
        shaped, mask, reward, correct, group, weight1=weights[0], weight2=weights[1]
    )
    assert found.dtype == torch.float64
    return found.item()


def test_whole_mass_has_no_gap_and_masked_tokens_hold_none():
    assert gap() < 1e-7


def test_the_gap_is_that_of_the_worst_side_and_position():
    leaking = SHAPED.clone()
    leaking[0, 0] -= 0.022  # 1 % of the right side's 2.2 at the first position
    leaking[2, 1] -= 0.11  # 5 % of the wrong side's 2.2 at the second
    assert gap(leaking) == pytest.approx(0.05, rel=1e-5)
    leaking[0, 1] += 0.11  # 10 % of the one right sequence that is left there
    assert gap(leaking) == pytest.approx(0.1, rel=1e-5)


def test_mass_that_moves_between_positions_or_groups_is_a_gap():
    moved = SHAPED + torch.tensor([[0.11, -0.11], [0, 0], [0, 0], [0, 0]])
    assert gap(moved) == pytest.approx(0.1, rel=1e-5)
    # The same sums, but the two right sequences belong to two groups.
    assert gap(group=torch.tensor([0, 1, 0, 1])) == pytest.approx(0.05 / 1.1, rel=1e-5)


def test_rewards_other_than_one_count_on_the_right_side_alone():
    reward = torch.tensor([0.5, 2.0, 9.0, -9.0])
    shaped = SHAPED - torch.tensor([[0.5, 0.5], [-1.0, 0.0], [0, 0], [0, 0]])
    assert gap(shaped, reward=reward) < 1e-7


def test_rewards_that_cancel_the_bonus_do_not_blow_up_the_rounding():
    # weight1 * -0.1 + weight2 is 0: the distance is relative to 0.2 a member, not to nothing.
    reward = torch.tensor([-0.1, -0.1, 0.0, 0.0])
    shaped = torch.tensor([[0.05, 1e-8], [-0.05, 0.0], [-1.15, -1.1], [-1.05, -1.1]])
    assert gap(shaped, reward=reward) < 1e-6
    shaped[0, 0] += 0.04
    assert gap(shaped, reward=reward) == pytest.approx(0.1, rel=1e-5)


def test_mass_from_nothing_and_nan_are_no_small_gaps():
    nothing = torch.zeros(4)
    even = torch.tensor([[0.0, 0.0], [0.0, 0.0], [-1.0, -1.0], [-1.0, -1.0]])
    assert gap(even, reward=nothing, weights=(1.0, 0.0)) == 0.0
    even[0, 0] = 1e-3
    assert gap(even, reward=nothing, weights=(1.0, 0.0)) == math.inf
    even[0, 0] = math.nan
    assert math.isnan(gap(even))
    assert gap(even, mask=torch.zeros(4, 2).bool()) == 0.0


def test_effective_members_by_hand():
    shares = torch.tensor([[0.75, 1.0], [0.25, 9.0], [0.75, 0.5], [0.25, 0.5]])
    # 1 / (0.5625 + 0.0625) = 1.6 twice, 2 once; the lone right sequence at t = 1 does not count.
    found = effective_members(shares, MASK, CORRECT, GROUP)
    assert found.item() == pytest.approx((1.6 + 1.6 + 2.0) / 3)
    alone = effective_members(shares, MASK, CORRECT, torch.arange(4))
    assert alone.item() == 0.0
    one_takes_all = torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert effective_members(one_takes_all, MASK, CORRECT, GROUP).item() == 1.0


def test_sign_flips_by_hand():
    advantages = torch.tensor([[1.0, -1.0], [-2.0, -9.0], [0.0, 3.0], [-1.0, -1.0]])
    # Right: -1 and -2 of three tokens. Wrong: 3 of four; 0 is no flip.
    assert sign_flips(advantages, MASK, CORRECT, 1.0).item() == pytest.approx(2 / 3)
    assert sign_flips(advantages, MASK, ~CORRECT, -1.0).item() == pytest.approx(1 / 4)
    assert sign_flips(advantages, MASK, torch.zeros(4).bool(), 1.0).item() == 0.0

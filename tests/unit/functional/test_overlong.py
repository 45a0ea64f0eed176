"""Length penalties by hand."""

import pytest
import torch

from gtpo_lit.functional.overlong import group_relative_penalty, soft_penalty


def _penalty(lengths, correct, gamma=0.8, group=None):
    rows = len(lengths)
    return group_relative_penalty(
        torch.tensor(lengths),
        torch.tensor(correct).bool(),
        torch.tensor(group or [0] * rows),
        gamma=gamma,
    ).tolist()


def test_soft_penalty_falls_evenly_over_the_buffer():
    found = soft_penalty(torch.tensor([80, 90, 95, 100, 120]), max_length=100, buffer=10)
    assert found.tolist() == [0, 0, -0.5, -1, -1]
    half = soft_penalty(torch.tensor([100]), max_length=100, buffer=10, factor=0.5)
    assert half.tolist() == [-0.5]


def test_an_easy_group_makes_its_long_correct_answers_pay():
    """Correct lengths 10, 10, 10, 40: knee max(25, 17.5) = 25; -(40 - 25) / 50 = -0.3."""
    found = _penalty([10, 10, 10, 40, 900], [1, 1, 1, 1, 0])
    assert found == pytest.approx([0, 0, 0, -0.3, 0])


def test_the_knee_is_the_middle_or_the_mean_whichever_is_longer():
    """Lengths 1, 1, 1, 97: middle 49, mean 25. Lengths 1, 97, 97, 97: middle 49, mean 73."""
    assert _penalty([1, 1, 1, 97], [1] * 4) == pytest.approx([0, 0, 0, -48 / 98])
    assert _penalty([1, 97, 97, 97], [1] * 4) == pytest.approx([0] + [-24 / 146] * 3)


def test_a_hard_group_pays_nothing():
    """One of five right is exactly 1 - 0.8, whatever its rounding."""
    assert _penalty([10, 10, 10, 10, 90], [1, 0, 0, 0, 0]) == [0] * 5


def test_a_medium_group_makes_its_majority_pay_over_all_lengths():
    """Lengths 10, 20, 30, 60: knee max(35, 30) = 35; 60: -25/70."""
    majority = _penalty([10, 20, 30, 60], [1, 1, 0, 1])
    assert majority == pytest.approx([0, 0, 0, -25 / 70])
    minority = _penalty([10, 20, 30, 60], [0, 1, 0, 0], gamma=0.9)
    assert minority == pytest.approx([0, 0, 0, -25 / 70])
    tie = _penalty([10, 20, 30, 60], [1, 1, 0, 0])
    assert tie == pytest.approx([0, 0, 0, -25 / 70])


def test_groups_may_be_interleaved():
    lengths, correct = [10, 10, 10, 10, 10, 40, 40, 10], [1, 0, 1, 0, 1, 0, 1, 0]
    found = _penalty(lengths, correct, group=[7, 3] * 4)
    assert found == pytest.approx([0, 0, 0, 0, 0, 0, -0.3, 0])


def test_options_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"gamma .*0.5"):
        _penalty([1], [1], gamma=0.5)
    with pytest.raises(ValueError, match="buffer"):
        soft_penalty(torch.tensor([1]), max_length=10, buffer=11)
    with pytest.raises(ValueError, match="factor"):
        soft_penalty(torch.tensor([1]), max_length=10, buffer=1, factor=-1)

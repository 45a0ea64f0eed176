"""Top-entropy tokens, masked means and segment moments."""

import pytest
import torch

from gtpo_lit.functional.masked import masked_mean, row_mean, segment_moments
from gtpo_lit.functional.selection import top_entropy_mask


def test_the_top_fifth_of_everything_passed_rounded_up():
    entropy = torch.tensor([[0.1, 0.9, 0.3], [0.8, 0.2, 5.0]])
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    assert top_entropy_mask(entropy, mask, 0.2).int().tolist() == [[0, 1, 0], [0, 0, 0]]
    assert top_entropy_mask(entropy, mask, 0.21).int().tolist() == [[0, 1, 0], [1, 0, 0]]
    assert torch.equal(top_entropy_mask(entropy, mask, 1.0), mask)


def test_ties_go_to_the_first_row_and_position():
    mask = torch.ones(2, 3).bool()
    assert top_entropy_mask(torch.ones(2, 3), mask, 0.5).int().tolist() == [[1, 1, 1], [0, 0, 0]]


def test_binary_rounding_adds_no_token():
    assert top_entropy_mask(torch.rand(1, 30), torch.ones(1, 30).bool(), 0.1).sum() == 3


def test_an_empty_mask_selects_nothing():
    assert top_entropy_mask(torch.ones(1, 3), torch.zeros(1, 3).bool(), 0.2).sum() == 0


@pytest.mark.parametrize("fraction", [0.0, 1.1, float("nan")])
def test_fractions_out_of_range_are_named(fraction):
    with pytest.raises(ValueError, match="fraction"):
        top_entropy_mask(torch.ones(1, 1), torch.ones(1, 1).bool(), fraction)


def test_means_skip_what_is_masked():
    """Report B3: token mean 5/3, not 2.5; per-sequence means 1 and 2."""
    values = torch.tensor([[1.0, 1.0, 5.0, 5.0], [2.0, 2.0, 2.0, 2.0]])
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]).bool()
    assert masked_mean(values, mask).item() == pytest.approx(5 / 3)
    assert row_mean(values, mask).tolist() == [1.0, 2.0]
    assert masked_mean(values, torch.zeros(2, 4).bool()).item() == 0.0


@pytest.mark.parametrize("pad", [1.0, -1.0, float("nan"), float("inf")])
def test_what_stands_in_for_pads_never_counts(pad):
    """Report B3: log-probs of -0.5 and pads stored as +1 give 0.5 a token, nothing negative."""
    logp = torch.tensor([[-0.5, -0.5, pad, pad]])
    mask = torch.tensor([[1, 1, 0, 0]]).bool()
    assert masked_mean(-logp, mask).item() == 0.5
    assert row_mean(-logp, mask).tolist() == [0.5]


def test_moments_by_segment():
    values = torch.tensor([1.0, 3.0, 7.0, 100.0, 0.1, 0.1, 0.1])
    index = torch.tensor([0, 0, 1, 0, 2, 2, 2])
    keep = torch.tensor([1, 1, 1, 0, 1, 1, 1]).bool()
    size, mean, std = segment_moments(values, index, 4, keep=keep)
    assert size.tolist() == [2, 1, 3, 0]
    assert mean.tolist() == [2.0, 7.0, pytest.approx(0.1), 0.0]
    assert std.tolist() == [pytest.approx(2**0.5), 0.0, 0.0, 0.0]

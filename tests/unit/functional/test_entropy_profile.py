from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gtpo_lit.functional.entropy_profile import position_means, quantiles, top_share
from gtpo_lit.functional.selection import top_entropy_mask


def test_quantiles_are_numpys() -> None:
    values = torch.rand(37, generator=torch.Generator().manual_seed(0))
    levels = [0.0, 0.1, 0.5, 0.9, 1.0]
    found = quantiles(values.sort().values, levels)
    np.testing.assert_allclose(found, np.quantile(values.numpy(), levels), rtol=0, atol=1e-7)
    assert quantiles(torch.tensor([2.5]), [0.1, 0.9]) == [2.5, 2.5]


def test_top_share_is_that_of_the_forking_tokens() -> None:
    values = torch.rand(7, 9, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(9) < torch.tensor([9, 3, 1, 0, 5, 8, 2])[:, None]
    chosen = top_entropy_mask(values, mask, 0.2)
    wanted = float(values[chosen].double().sum() / values[mask].double().sum())
    assert top_share(values[mask].sort().values, 0.2) == pytest.approx(wanted, abs=1e-12)


def test_top_share_of_30_tokens_takes_three_and_no_fourth() -> None:
    ordered = torch.tensor([1.0] * 27 + [2.0] * 3)
    assert top_share(ordered, 0.1) == 6 / 33
    assert top_share(ordered, 1.0) == 1.0
    assert math.isnan(top_share(torch.zeros(3), 0.2))


def position_means_by_loop(values, mask, parts):
    sums, counts = [0.0] * parts, [0] * parts
    for row in range(len(mask)):
        places = [t for t in range(mask.shape[1]) if mask[row, t]]
        for t in places:
            part = t * parts // (places[-1] + 1)
            sums[part] += float(values[row, t])
            counts[part] += 1
    return [s / c if c else math.nan for s, c in zip(sums, counts, strict=True)]


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_position_means_against_a_loop_with_holes_and_empty_rows(parts) -> None:
    generator = torch.Generator().manual_seed(parts)
    values = torch.rand(11, 13, generator=generator)
    mask = torch.rand(11, 13, generator=generator) < 0.6
    mask[3] = False
    found = position_means(values, mask, parts)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, position_means_by_loop(values, mask, parts), atol=1e-12)


def test_what_lies_under_the_mask_is_never_read() -> None:
    values = torch.tensor([[1.0, math.nan, 3.0, math.nan]])
    mask = torch.tensor([[True, False, True, False]])
    # Three positions, so that the third lies in the second half.
    assert position_means(values, mask, 2).tolist() == [1.0, 3.0]


def test_a_part_without_a_token_is_nan() -> None:
    found = position_means(torch.tensor([[2.0, 9.0]]), torch.tensor([[True, False]]), 3)
    assert found[0] == 2.0
    assert found[1:].isnan().all()

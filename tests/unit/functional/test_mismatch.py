"""The sampler's gap and its weights: by hand, against plain loops, and at their edges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.functional.mismatch import (
    bound_weights,
    comparable,
    cut_fraction,
    effective_sample_size,
    importance_weights,
    log_ratio,
    sampler_kl,
)

NAN, INF = math.nan, math.inf
LIMIT = 60.0


def double(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def loop_ratio(old, sampler):
    """d of one token, or nothing where there is none."""
    gap = old - sampler
    return None if math.isnan(gap) else max(-LIMIT, min(LIMIT, gap))


def loop_weights(old, sampler, mask, *, level, bound, low, high):
    """Weights of every row as Python lists, 1 where masked."""
    rows = []
    for i in range(len(mask)):
        places = [t for t in range(len(mask[i])) if mask[i][t]]
        gaps = {t: loop_ratio(old[i][t], sampler[i][t]) or 0.0 for t in places}
        if level == "sequence":
            total = max(-LIMIT, min(LIMIT, math.fsum(gaps.values())))
            gaps = dict.fromkeys(places, total)
        row = [1.0] * len(mask[i])
        for t, gap in gaps.items():
            weight = math.exp(gap)
            if bound == "truncate":
                row[t] = min(max(weight, low), high)
            else:
                row[t] = weight if low <= weight <= high else 0.0
        rows.append(row)
    return rows


@st.composite
def tables(draw):
    """Old and sampler log-probs with holes, empty rows and extreme values, and a mask."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    value = st.one_of(st.floats(-8, 0), st.sampled_from([-INF, -9999.0, NAN, 0.0]))
    table = st.lists(
        st.lists(value, min_size=columns, max_size=columns), min_size=rows, max_size=rows
    )
    flags = st.lists(st.booleans(), min_size=columns, max_size=columns)
    mask = draw(st.lists(flags, min_size=rows, max_size=rows))
    return draw(table), draw(table), mask


@given(
    table=tables(),
    level=st.sampled_from(["token", "sequence"]),
    bound=st.sampled_from(["truncate", "mask"]),
    low=st.sampled_from([0.0, 0.5]),
    high=st.sampled_from([1.0, 2.0, 1e30]),
)
def test_weights_equal_the_plain_loop(table, level, bound, low, high):
    old, sampler, mask = table
    flags = torch.tensor(mask)
    ratios = log_ratio(double(*old), double(*sampler), flags)
    weights = bound_weights(importance_weights(ratios, level), bound, low=low, high=high)
    weights = torch.where(flags, weights, 1.0)
    wanted = loop_weights(old, sampler, mask, level=level, bound=bound, low=low, high=high)
    torch.testing.assert_close(weights, double(*wanted), rtol=1e-10, atol=1e-12)


@given(table=tables())
def test_statistics_equal_the_plain_loop(table):
    old, sampler, mask = table
    told = comparable(double(*old), double(*sampler), torch.tensor(mask))
    ratios = log_ratio(double(*old), double(*sampler), torch.tensor(mask))[told]
    wanted = [
        gap
        for i in range(len(mask))
        for t in range(len(mask[i]))
        if mask[i][t] and (gap := loop_ratio(old[i][t], sampler[i][t])) is not None
    ]
    assert ratios.tolist() == pytest.approx(wanted, abs=1e-12)
    count = max(1, len(wanted))
    assert sampler_kl(ratios, "k1").item() == pytest.approx(-math.fsum(wanted) / count, abs=1e-12)
    third = math.fsum(math.exp(gap) - 1 - gap for gap in wanted) / count
    assert sampler_kl(ratios, "k3").item() == pytest.approx(third, rel=1e-10, abs=1e-12)
    weights = [math.exp(gap) for gap in wanted]
    size = math.fsum(weights) ** 2 / (count * math.fsum(w * w for w in weights)) if weights else 0
    assert effective_sample_size(ratios.exp()).item() == pytest.approx(size, rel=1e-10)
    outside = sum(not 0.5 <= w <= 2.0 for w in weights) / count
    assert cut_fraction(ratios.exp(), low=0.5, high=2.0).item() == pytest.approx(outside)


def test_log_ratio_by_hand():
    old, sampler = double([-1.0, -2.0, -3.0]), double([-1.5, -2.0, -1.0])
    mask = torch.tensor([[True, True, True]])
    assert log_ratio(old, sampler, mask).tolist() == [[0.5, 0.0, -2.0]]


def test_what_is_masked_is_not_read_and_what_is_not_reported_has_ratio_zero():
    old, sampler = double([-1.0, NAN, -2.0, -INF]), double([NAN, NAN, -2.5, -INF])
    mask = torch.tensor([[True, False, True, True]])
    assert log_ratio(old, sampler, mask).tolist() == [[0.0, 0.0, 0.5, 0.0]]
    assert comparable(old, sampler, mask).tolist() == [[False, False, True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_differences_stay_finite(dtype):
    old = torch.tensor([[-1.0, -INF, -0.1, -9999.0]], dtype=dtype)
    sampler = torch.tensor([[-INF, -1.0, -9999.0, -0.1]], dtype=dtype)
    ratios = log_ratio(old, sampler, torch.ones(1, 4, dtype=torch.bool))
    assert ratios.tolist() == [[60.0, -60.0, 60.0, -60.0]]
    assert importance_weights(ratios, "sequence").tolist() == [[1.0]]
    assert importance_weights(ratios[:, [0, 2]], "sequence").log().item() == pytest.approx(60)
    weights = importance_weights(ratios, "token")
    assert bound_weights(weights, "truncate", high=2.0)[0, ::2].tolist() == [2.0, 2.0]
    assert bound_weights(weights, "mask", low=0.5, high=2.0).tolist() == [[0.0] * 4]
    # Two huge weights of four share the sample; the squares alone would overflow float32.
    assert effective_sample_size(weights[0]).item() == pytest.approx(0.5)
    assert sampler_kl(ratios[0], "k1").item() == 0.0
    assert sampler_kl(ratios[0], "k3").item() == pytest.approx(2 * math.exp(60) / 4)


def test_importance_weights_by_hand():
    ratios = double([math.log(2), math.log(3), 0.0], [0.0, math.log(0.5), math.log(0.5)])
    token = importance_weights(ratios, "token")
    torch.testing.assert_close(token, double([2, 3, 1], [1, 0.5, 0.5]))
    torch.testing.assert_close(importance_weights(ratios, "sequence"), double([6.0], [0.25]))


def test_bounds_by_hand():
    weights = double(0.1, 0.5, 1.0, 2.0, 2.1)
    kept = bound_weights(weights, "truncate", low=0.5, high=2.0)
    assert kept.tolist() == [0.5, 0.5, 1.0, 2.0, 2.0]
    kept = bound_weights(weights, "mask", low=0.5, high=2.0)
    assert kept.tolist() == [0.0, 0.5, 1.0, 2.0, 0.0]
    assert cut_fraction(weights, low=0.5, high=2.0).item() == pytest.approx(2 / 5)
    assert cut_fraction(weights).item() == pytest.approx(1 / 5)


def test_effective_sample_size_by_hand():
    assert effective_sample_size(double(3.0, 3.0)).item() == 1.0
    assert effective_sample_size(double(0.0, 5.0, 0.0, 0.0)).item() == 0.25
    assert effective_sample_size(double(1.0, 2.0)).item() == pytest.approx(9 / (2 * 5))
    assert effective_sample_size(double(0.0, 0.0)).item() == 0.0
    assert effective_sample_size(torch.zeros(0)).item() == 0.0


def test_kl_by_hand():
    """A sampler (0.5, 0.5) and a policy (0.25, 0.75): the mean of each estimate is the KL."""
    ratios = double(0.25, 0.75).log() - math.log(0.5)
    exact = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert sampler_kl(ratios, "k1").item() == pytest.approx(exact)
    assert sampler_kl(ratios, "k3").item() == pytest.approx(exact)


def test_small_gaps_keep_their_digits():
    ratios = torch.full((10,), 1e-4, dtype=torch.float32)
    assert sampler_kl(ratios, "k3").item() == pytest.approx(5e-9, rel=1e-3)


def test_unknown_choices_are_named():
    with pytest.raises(ValueError, match="level must be one of .*got 'word'"):
        importance_weights(torch.zeros(1, 1), "word")
    with pytest.raises(ValueError, match="bound must be one of .*got 'drop'"):
        bound_weights(torch.zeros(1), "drop")

"""The clipped surrogate by hand, against a plain loop, and at its edges."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.functional.surrogate import (
    aggregate_tokens,
    count_units,
    kl_estimate,
    policy_loss,
)


def loop_loss(
    logp,
    logp_old,
    advantages,
    mask,
    *,
    low,
    high,
    dual,
    ratio,
    aggregate,
    max_length,
    correction=None,
):
    """One token at a time, with autograd through Python arithmetic on 0-dim tensors."""
    rows, columns = logp.shape
    sums, counts = [], []
    for i in range(rows):
        places = [t for t in range(columns) if mask[i, t]]
        if not places:
            continue
        gaps = [logp[i, t] - logp_old[i, t] for t in places]
        if ratio == "token":
            weights = [gap.exp() for gap in gaps]
        elif ratio == "sequence_geometric":
            weights = [(sum(gaps) / len(gaps)).exp()] * len(places)
        else:
            weights = [sum(gap.exp() for gap in gaps) / len(gaps)] * len(places)
        losses = []
        for t, weight in zip(places, weights, strict=True):
            credit = advantages[i] if advantages.ndim == 1 else advantages[i, t]
            bounded = weight.clamp(1 - low, 1 + high)
            value = -torch.minimum(weight * credit, bounded * credit)
            if dual is not None and credit < 0:
                value = torch.minimum(value, -dual * credit)
            losses.append(value if correction is None else value * correction[i, t])
        sums.append(sum(losses))
        counts.append(len(losses))
    if not sums:
        return torch.zeros((), dtype=torch.float64)
    if aggregate == "token_mean":
        return sum(sums) / sum(counts)
    if aggregate == "sequence_mean":
        return sum(s / n for s, n in zip(sums, counts, strict=True)) / len(sums)
    return sum(sums) / max_length / len(sums)


@st.composite
def batches(draw):
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 9999)))
    old = -torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 3
    logp = old + torch.randn(rows, columns, generator=generator, dtype=torch.float64) * draw(
        st.sampled_from([0.0, 0.1, 1.5])
    )
    mask = torch.rand(rows, columns, generator=generator) < draw(st.sampled_from([0.0, 0.7, 1.0]))
    token_level = draw(st.booleans())
    shape = (rows, columns) if token_level else (rows,)
    advantages = torch.randn(shape, generator=generator, dtype=torch.float64)
    kinds = ["token"] if token_level else ["token", "sequence_geometric", "sequence_arithmetic"]
    return logp, old, advantages, mask, draw(st.sampled_from(kinds))


@given(
    batch=batches(),
    aggregate=st.sampled_from(["token_mean", "sequence_mean", "constant_length"]),
    dual=st.sampled_from([None, 3.0]),
    corrected=st.booleans(),
)
def test_loss_and_gradient_equal_the_plain_loop(batch, aggregate, dual, corrected):
    logp, old, advantages, mask, ratio = batch
    correction = (4 * torch.rand(mask.shape, generator=torch.Generator().manual_seed(7))).double()
    correction = correction.floor() / 2 if corrected else None
    ours, theirs = logp.clone().requires_grad_(), logp.clone().requires_grad_()
    loss, _ = policy_loss(
        ours,
        old,
        advantages,
        mask,
        dual_clip=dual,
        ratio=ratio,
        aggregate=aggregate,
        max_length=7,
        correction=correction,
    )
    wanted = loop_loss(
        theirs,
        old,
        advantages,
        mask,
        low=0.2,
        high=0.28,
        dual=dual,
        ratio=ratio,
        aggregate=aggregate,
        max_length=7,
        correction=correction,
    )
    torch.testing.assert_close(loss, wanted, rtol=1e-10, atol=1e-12)
    loss.backward()
    if wanted.requires_grad:
        wanted.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
    else:
        assert ours.grad.abs().max() == 0


@pytest.mark.parametrize(
    ("weight", "credit", "wanted"),
    [
        (1.5, 1.0, -1.28),  # a good token past the upper bound counts at the bound
        (1.5, -1.0, 1.5),  # a bad one past it counts in full
        (0.5, 1.0, -0.5),
        (0.5, -1.0, 0.8),  # a bad token below the lower bound counts at the bound
        (20.0, -1.0, 10.0),  # the dual clip
    ],
)
def test_clipping_by_hand(weight, credit, wanted):
    loss, _ = policy_loss(
        torch.tensor([[math.log(weight)]]).double(),
        torch.zeros(1, 1).double(),
        torch.tensor([credit]).double(),
        torch.ones(1, 1).bool(),
        dual_clip=10.0,
    )
    assert loss.item() == pytest.approx(wanted)


def test_masked_tokens_leave_the_denominator_too():
    """Report A1: 10 + 15 kept tokens of loss 1 and 5 masked ones give 1.0, not 25/30."""
    mask = torch.zeros(3, 15).bool()
    mask[0, :10] = mask[1, :15] = True
    logp = torch.zeros(3, 15)
    loss, _ = policy_loss(logp, logp, -torch.ones(3), mask)
    assert loss.item() == 1.0


@pytest.mark.parametrize("ratio", ["token", "sequence_geometric", "sequence_arithmetic"])
@pytest.mark.parametrize("aggregate", ["token_mean", "sequence_mean", "constant_length"])
def test_all_masked_gives_exact_zeros(ratio, aggregate):
    """Report A1, second case; what stands under the mask may be anything."""
    logp = torch.full((2, 3), float("nan")).requires_grad_()
    loss, metrics = policy_loss(
        logp,
        torch.full((2, 3), float("-inf")),
        torch.full((2,), float("nan")),
        torch.zeros(2, 3).bool(),
        ratio=ratio,
        aggregate=aggregate,
        max_length=4,
        dual_clip=3.0,
    )
    loss.backward()
    assert loss.item() == 0.0
    assert logp.grad.tolist() == [[0.0] * 3] * 2
    assert all(bool(value.isfinite()) for value in metrics.values())


def test_garbage_under_a_hole_reaches_neither_loss_nor_gradient():
    mask = torch.tensor([[True, False, True]])
    logp = torch.tensor([[-1.0, float("nan"), -2.0]]).requires_grad_()
    old = torch.tensor([[-1.0, 3.0, -2.0]])
    loss, _ = policy_loss(logp, old, torch.tensor([[1.0, float("inf"), 3.0]]), mask)
    loss.backward()
    assert loss.item() == -2.0
    assert logp.grad.tolist() == [[-0.5, 0.0, -1.5]]


def test_a_ratio_beyond_float_range_stays_finite():
    logp = torch.tensor([[200.0, -200.0]]).requires_grad_()
    loss, metrics = policy_loss(
        logp, torch.zeros(1, 2), torch.tensor([[1.0, -1.0]]), torch.ones(1, 2).bool()
    )
    loss.backward()
    assert loss.item() == pytest.approx((-1.28 + 0.8) / 2)
    assert logp.grad.tolist() == [[0.0, 0.0]]
    assert metrics["ratio/clipped_fraction"] == 1.0


def test_parts_with_the_whole_denominator_add_up():
    generator = torch.Generator().manual_seed(0)
    logp, old = torch.randn(2, 6, 4, generator=generator).double()
    mask = torch.rand(6, 4, generator=generator) < 0.7
    advantages = torch.randn(6, generator=generator).double()
    for aggregate in ("token_mean", "sequence_mean", "constant_length"):
        whole, _ = policy_loss(logp, old, advantages, mask, aggregate=aggregate, max_length=9)
        units = count_units(mask, aggregate)
        parts = sum(
            policy_loss(
                logp[i : i + 2],
                old[i : i + 2],
                advantages[i : i + 2],
                mask[i : i + 2],
                aggregate=aggregate,
                max_length=9,
                denominator=units,
            )[0]
            for i in (0, 2, 4)
        )
        torch.testing.assert_close(parts, whole)


def test_aggregations_by_hand():
    values = torch.tensor([[1.0, 3.0], [5.0, 9.0], [7.0, 7.0]])
    mask = torch.tensor([[1, 1], [1, 0], [0, 0]]).bool()
    assert aggregate_tokens(values, mask, "token_mean").item() == 3.0
    assert aggregate_tokens(values, mask, "sequence_mean").item() == (2 + 5) / 2
    assert aggregate_tokens(values, mask, "constant_length", max_length=10).item() == (
        pytest.approx((0.4 + 0.5) / 2)
    )
    assert count_units(mask, "token_mean") == 3
    assert count_units(mask, "sequence_mean") == 2


@pytest.mark.parametrize(
    ("kind", "value", "slope"),
    [("k1", 0.5, 1.0), ("k2", 0.125, 0.5), ("k3", math.exp(-0.5) - 0.5, 1 - math.exp(-0.5))],
)
def test_kl_estimates_and_their_gradients_at_a_gap_of_one_half(kind, value, slope):
    logp = torch.tensor([[-1.0]]).double().requires_grad_()
    estimate = kl_estimate(logp, torch.tensor([[-1.5]]).double(), kind)
    estimate.sum().backward()
    assert estimate.item() == pytest.approx(value)
    assert logp.grad.item() == pytest.approx(slope)
    logp.grad = None
    through = kl_estimate(logp, torch.tensor([[-1.5]]).double(), kind, straight_through=True)
    through.sum().backward()
    assert through.item() == pytest.approx(value)
    assert logp.grad.item() == pytest.approx(0.5)


def test_wrong_options_are_named():
    tensors = torch.zeros(1, 1), torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1).bool()
    with pytest.raises(ValueError, match="need ratio 'token', got 'sequence_geometric'"):
        policy_loss(*tensors, ratio="sequence_geometric")
    with pytest.raises(ValueError, match="ratio must be .*'other'"):
        policy_loss(tensors[0], tensors[0], torch.zeros(1), tensors[3], ratio="other")
    with pytest.raises(ValueError, match="aggregate must be .*'other'"):
        policy_loss(*tensors, aggregate="other")
    with pytest.raises(ValueError, match="needs max_length"):
        policy_loss(*tensors, aggregate="constant_length")
    with pytest.raises(ValueError, match="kind must be .*'k9'"):
        kl_estimate(tensors[0], tensors[0], "k9")


def test_a_correction_of_zero_keeps_its_token_in_the_denominator():
    logp = torch.zeros(1, 4, requires_grad=True)
    garbage = torch.tensor([[2.0, 0.0, 0.5, math.inf]])
    mask = torch.tensor([[True, True, True, False]])
    loss, metrics = policy_loss(
        logp, torch.zeros(1, 4), torch.tensor([3.0]), mask, correction=garbage
    )
    loss.backward()
    assert loss.item() == pytest.approx(-3 * (2 + 0 + 0.5) / 3)
    assert logp.grad.tolist() == [[-2.0, 0.0, -0.5, 0.0]]
    assert metrics["correction/loss_weight"].item() == pytest.approx(2.5 / 3)


def test_a_correction_carries_no_gradient():
    correction = torch.full((1, 2), 1.5, requires_grad=True)
    logp = torch.zeros(1, 2, requires_grad=True)
    mask = torch.ones(1, 2, dtype=torch.bool)
    loss, _ = policy_loss(logp, torch.zeros(1, 2), torch.tensor([1.0]), mask, correction=correction)
    loss.backward()
    assert correction.grad is None
    assert logp.grad.tolist() == [[-0.75, -0.75]]

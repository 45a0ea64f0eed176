"""Every algorithm equals a plain-loop reference: credit, loss and gradient, in float64."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.rollout.micro_batches import settle
from gtpo_lit.types import Rollouts

EPS = 1e-6
MAX_LENGTH = 6
ENTROPIES = [0.0, 5e-324, 1e-310, 1e-38, 1e-8, 0.3, 1.0, math.log(151_936)]


def statistics(values):
    """Exact mean, and std with ddof 1."""
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return mean, math.sqrt(sum((v - mean) ** 2 for v in exact) / max(len(exact) - 1, 1))


def zscores(cells, *, divide=True):
    if len(cells) < 2:
        return dict.fromkeys(cells, 0.0)
    mean, std = statistics(cells.values())
    return {
        place: float(Fraction(value) - mean) / (std + EPS if divide else 1.0)
        for place, value in cells.items()
    }


def share(entropy, row, right):
    """Share of `row` in a set {row: entropy}, exactly."""
    level = {k: Fraction(value) for k, value in entropy.items()}
    zeros = [k for k, value in level.items() if value == 0]
    if right:
        total = sum(level.values())
        return level[row] / total if total else Fraction(1, len(level))
    if zeros:
        return Fraction(int(row in zeros), len(zeros))
    return 1 / level[row] / sum(1 / value for value in level.values())


class Batch:
    """Rows as Python lists, and the groups whose rows have any token."""

    def __init__(self, columns):
        self.__dict__.update(columns)
        self.alive = [row for row in range(len(self.group)) if any(self.mask[row])]
        self.groups = {
            name: [row for row in self.alive if self.group[row] == name] for name in self.group
        }

    def mixed(self, name):
        return len({self.correct[row] for row in self.groups[name]}) == 2

    def shaped(self, level, row, members, weights):
        same = {
            k: value
            for k, value in level.items()
            if k in members and self.correct[k] == self.correct[row]
        }
        bonus = weights[1] * float(share(same, row, self.correct[row]) * len(same))
        outcome = weights[0] * self.reward[row] + bonus
        return (outcome if self.correct[row] else -weights[0] - bonus) + self.penalty[row]


def plain_credit(batch, *, divide=True):
    result = [0.0] * len(batch.group)
    for members in batch.groups.values():
        cells = {row: batch.reward[row] + batch.penalty[row] for row in members}
        for row, score in zscores(cells, divide=divide).items():
            result[row] = score
    return result


def gtpo_credit(batch, mode="joint", weights=(1.0, 0.1)):
    result = [[0.0] * len(batch.mask[0]) for _ in batch.mask]
    for name, members in batch.groups.items():
        if not batch.mixed(name):
            continue
        cells = {}
        for t in range(len(batch.mask[0])):
            level = {row: batch.entropy[row][t] for row in members if batch.mask[row][t]}
            for row in level:
                cells[row, t] = batch.shaped(level, row, members, weights)
        if mode == "anchored":
            mean, std = statistics([1 if batch.correct[row] else -1 for row in members])
            scores = {
                place: (value / sum(weights) - float(mean)) / (std + EPS)
                for place, value in cells.items()
            }
        elif mode == "joint":
            scores = zscores(cells)
        else:
            scores = {}
            for side in (True, False):
                scores |= zscores({p: v for p, v in cells.items() if batch.correct[p[0]] == side})
        for (row, t), score in scores.items():
            result[row][t] = score
    return result


def grpo_s_credit(batch):
    result = [0.0] * len(batch.group)
    for name, members in batch.groups.items():
        if not batch.mixed(name):
            continue
        level = {}
        for row in members:
            own = [h for h, keep in zip(batch.entropy[row], batch.mask[row], strict=True) if keep]
            level[row] = math.fsum(own) / len(own)
        cells = {row: batch.shaped(level, row, members, (1.0, 0.1)) for row in members}
        for row, score in zscores(cells).items():
            result[row] = score
    return result


def forking_mask(batch, fraction=(1, 5)):
    places = [
        (-batch.entropy[row][t], row, t)
        for row in range(len(batch.group))
        for t, keep in enumerate(batch.loss_mask[row])
        if keep
    ]
    chosen = sorted(places)[: -(-fraction[0] * len(places) // fraction[1])]
    result = [[False] * len(row) for row in batch.mask]
    for _, row, t in chosen:
        result[row][t] = True
    return result


def loop_loss(batch, credit, mask, *, ratio, aggregate, low, high, dual=None):
    """Loss and gradient, written from the formulas."""
    rows = {r: [t for t, keep in enumerate(kept) if keep] for r, kept in enumerate(mask)}
    rows = {r: places for r, places in rows.items() if places}
    loss, gradient = 0.0, [[0.0] * len(mask[0]) for _ in mask]
    for r, places in rows.items():
        change = {t: batch.logp[r][t] - batch.logp_old[r][t] for t in places}
        weight = {t: math.exp(value) for t, value in change.items()}
        slope = {t: {t: weight[t]} for t in places}
        if ratio == "arithmetic":
            mean = sum(weight.values()) / len(places)
            slope = {t: {k: weight[k] / len(places) for k in places} for t in places}
            weight = dict.fromkeys(places, mean)
        elif ratio == "geometric":
            mean = math.exp(sum(change.values()) / len(places))
            slope = {t: {k: mean / len(places) for k in places} for t in places}
            weight = dict.fromkeys(places, mean)
        for t in places:
            part = {
                "token_mean": 1 / sum(map(len, rows.values())),
                "sequence_mean": 1 / len(rows) / len(places),
                "constant_length": 1 / len(rows) / MAX_LENGTH,
            }[aggregate]
            advantage = credit[r][t] if isinstance(credit[r], list) else credit[r]
            clipped = min(max(weight[t], 1 - low), 1 + high) * advantage
            value, active = min(weight[t] * advantage, clipped), weight[t] * advantage <= clipped
            if dual is not None and advantage < 0 and value < dual * advantage:
                value, active = dual * advantage, False
            loss -= part * value
            for k, derivative in slope[t].items():
                gradient[r][k] -= part * advantage * derivative * active
    return loss, gradient


def forking_loss(batch, credit, mask, **options):
    return loop_loss(batch, credit, forking_mask(batch), **options)


CLIP = {"low": 0.2, "high": 0.28}
TOKEN = {"ratio": "token", "aggregate": "token_mean", **CLIP}
CASES = {
    "gtpo": (GTPO(), gtpo_credit, loop_loss, TOKEN),
    "gtpo_anchored": (
        GTPO(normalisation="anchored"),
        lambda batch: gtpo_credit(batch, "anchored"),
        loop_loss,
        TOKEN,
    ),
    "gtpo_separate": (
        GTPO(normalisation="separate"),
        lambda batch: gtpo_credit(batch, "separate"),
        loop_loss,
        TOKEN,
    ),
    "grpo_s": (
        GRPOS(),
        grpo_s_credit,
        loop_loss,
        {"ratio": "arithmetic", "aggregate": "sequence_mean", **CLIP},
    ),
    "grpo": (
        GRPO(),
        plain_credit,
        loop_loss,
        {"ratio": "token", "aggregate": "sequence_mean", "low": 0.2, "high": 0.2},
    ),
    "dr_grpo": (
        DrGRPO(max_length=MAX_LENGTH),
        lambda batch: plain_credit(batch, divide=False),
        loop_loss,
        {"ratio": "token", "aggregate": "constant_length", "low": 0.2, "high": 0.2},
    ),
    "dapo": (DAPO(), plain_credit, loop_loss, {**TOKEN, "dual": 10.0}),
    "gspo": (
        GSPO(),
        plain_credit,
        loop_loss,
        {"ratio": "geometric", "aggregate": "sequence_mean", "low": 3e-4, "high": 4e-4},
    ),
    "grpo_s_geometric": (
        GRPOS(sequence_ratio="geometric"),
        grpo_s_credit,
        loop_loss,
        {"ratio": "geometric", "aggregate": "sequence_mean", **CLIP},
    ),
    "gspo_arithmetic": (
        GSPO(sequence_ratio="arithmetic"),
        plain_credit,
        loop_loss,
        {"ratio": "arithmetic", "aggregate": "sequence_mean", "low": 3e-4, "high": 4e-4},
    ),
    "forking_dapo": (ForkingDAPO(), plain_credit, forking_loss, {**TOKEN, "dual": 10.0}),
}


@st.composite
def batches(draw):
    rows, positions = draw(st.integers(1, 7)), draw(st.integers(1, 4))

    def table(strategy):
        row = st.lists(strategy, min_size=positions, max_size=positions)
        return draw(st.lists(row, min_size=rows, max_size=rows))

    def column(strategy):
        return draw(st.lists(strategy, min_size=rows, max_size=rows))

    mask = table(st.booleans() if draw(st.booleans()) else st.just(value=True))
    filtered = column(st.booleans())
    correct = column(st.booleans())
    binary = draw(st.booleans())
    logp_old = table(st.floats(-9, -3))
    # Steps of 0.07 never meet a clip bound exactly.
    change = table(st.integers(-40, 40).map(lambda step: 0.07 * step))
    return Batch(
        {
            "mask": mask,
            "loss_mask": [
                [keep and not out for keep in row] for row, out in zip(mask, filtered, strict=True)
            ],
            "group": column(st.integers(0, 2)),
            "correct": correct,
            "reward": [float(c) for c in correct]
            if binary
            else column(st.sampled_from([0.0, 0.25, 0.7, 1.0])),
            "penalty": [0.0] * rows if binary else column(st.sampled_from([0.0, -0.5, -0.125])),
            "entropy": table(st.sampled_from(ENTROPIES) | st.floats(0, 12)),
            "logp_old": logp_old,
            "logp": [
                [a + b for a, b in zip(*pair, strict=True)]
                for pair in zip(logp_old, change, strict=True)
            ],
        }
    )


def rollouts_of(batch):
    mask = torch.tensor(batch.mask)

    def real(values):
        return torch.tensor(values, dtype=torch.float64)

    return Rollouts(
        input_ids=torch.zeros(mask.shape).long(),
        attention_mask=mask,
        mask=mask,
        loss_mask=torch.tensor(batch.loss_mask),
        group=torch.tensor(batch.group),
        reward=real(batch.reward),
        correct=torch.tensor(batch.correct),
        truncated=torch.zeros(len(mask)).bool(),
        temperature=1.0,
        logp_old=real(batch.logp_old),
        entropy=real(batch.entropy),
        penalty=real(batch.penalty) if any(batch.penalty) else None,
    )


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None)
@given(batch=batches())
def test_credit_loss_and_gradient_against_loops(name, batch):
    algorithm, reference_credit, reference_loss, options = CASES[name]
    rollouts = rollouts_of(batch)
    expected = reference_credit(batch)
    credit = algorithm.advantages(rollouts)
    assert credit.dtype == torch.float64
    torch.testing.assert_close(
        credit, torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=1e-10
    )

    rollouts = rollouts.replace(advantages=credit)
    rollouts = settle(rollouts, algorithm, lambda seen: seen)
    rollouts = rollouts.replace(denominator=rollouts.denominator.double())
    logp = torch.tensor(batch.logp, dtype=torch.float64, requires_grad=True)
    output = algorithm.loss(logp, rollouts.entropy, rollouts)
    output.loss.backward()
    loss, gradient = reference_loss(batch, expected, batch.loss_mask, **options)
    assert output.loss.item() == pytest.approx(loss, abs=1e-10, rel=1e-10)
    torch.testing.assert_close(
        logp.grad, torch.tensor(gradient, dtype=torch.float64), atol=1e-10, rtol=1e-10
    )
    assert all(math.isfinite(value.item()) for value in output.metrics.values())
    assert all(math.isfinite(value) for value in algorithm.diagnostics(rollouts).values())


@pytest.mark.parametrize("name", CASES)
def test_all_masked_is_exactly_zero(name):
    algorithm = CASES[name][0]
    garbage = torch.full((2, 3), float("nan"), dtype=torch.float64)
    nothing = torch.zeros(2, 3).bool()
    rollouts = Rollouts(
        input_ids=torch.zeros(2, 3).long(),
        attention_mask=nothing,
        mask=nothing,
        loss_mask=nothing,
        group=torch.tensor([-1, -1]),
        reward=torch.tensor([1.0, 0.0]).double(),
        correct=torch.tensor([True, False]),
        truncated=torch.zeros(2).bool(),
        temperature=1.0,
        logp_old=garbage,
        entropy=garbage,
    )
    credit = algorithm.advantages(rollouts)
    assert not credit.any()
    rollouts = settle(rollouts.replace(advantages=credit), algorithm, lambda seen: seen)
    logp = garbage.clone().requires_grad_()
    output = algorithm.loss(logp, garbage, rollouts)
    output.loss.backward()
    assert output.loss.item() == 0
    assert torch.equal(logp.grad, torch.zeros(2, 3).double())
    assert all(math.isfinite(value.item()) for value in output.metrics.values())
    assert all(value == 0 for value in algorithm.diagnostics(rollouts).values())

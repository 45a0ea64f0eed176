"""Penalties reach credit, the overlong filter reaches the loss mask only."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO
from gtpo_lit.rollout.credit import credited, only_mixed, penalised, without_truncated
from gtpo_lit.rollout.length_penalty import LengthPenalty, SoftOverlong
from gtpo_lit.rollout.micro_batches import settle
from gtpo_lit.types import Rollouts


@pytest.fixture
def step():
    """Four answers to one problem of 2, 3, 4 and 4 tokens; the last was cut."""
    mask = torch.arange(4)[None] < torch.tensor([2, 3, 4, 4])[:, None]
    return Rollouts(
        input_ids=torch.zeros(4, 4).long(),
        attention_mask=mask,
        mask=mask,
        loss_mask=mask,
        group=torch.zeros(4).long(),
        reward=torch.tensor([1.0, 1, 0, 0]),
        correct=torch.tensor([True, True, False, False]),
        truncated=torch.tensor([False, False, False, True]),
        temperature=1.0,
        logp_old=torch.zeros(4, 4),
        entropy=torch.ones(4, 4),
    )


class Constant(LengthPenalty):
    def penalty(self, rollouts, max_tokens):
        return torch.full(rollouts.reward.shape, -0.25)


def test_penalties_add_up(step):
    whole = penalised(step, [SoftOverlong(buffer=2), Constant()], max_tokens=4)
    torch.testing.assert_close(whole.penalty, torch.tensor([-0.25, -0.75, -1.25, -1.25]))
    assert penalised(step, [], max_tokens=4) is step


def test_a_penalty_is_a_part_of_what_is_normalised(step):
    whole = credited(penalised(step, [SoftOverlong(buffer=2)], max_tokens=4), GRPO())
    totals = torch.tensor([1.0, 0.5, -1.0, -1.0])
    wanted = (totals - totals.mean()) / (totals.std() + 1e-6)
    torch.testing.assert_close(whole.advantages, wanted)


def test_a_group_of_one_outcome_that_dynamic_sampling_left_in_gets_no_gradient(step):
    assert torch.equal(only_mixed(step).loss_mask, step.mask)
    alike = step.replace(correct=torch.zeros(4).bool())
    assert not only_mixed(alike).loss_mask.any()
    assert torch.equal(only_mixed(alike).mask, step.mask)


def test_the_filter_takes_gradient_but_not_credit(step):
    plain, filtered = credited(step, DAPO()), credited(without_truncated(step), DAPO())
    assert torch.equal(plain.advantages, filtered.advantages)
    assert filtered.loss_mask.sum(dim=1).tolist() == [2, 3, 4, 0]
    assert torch.equal(filtered.mask, step.mask)


def test_the_filter_leaves_the_denominator_with_what_is_left(step):
    """Three rows of loss 1 a token, one of them filtered: 9 tokens of 9, not of 13."""
    whole = without_truncated(step).replace(advantages=-torch.ones(4))
    batch = settle(whole, DAPO(), lambda seen: seen)
    assert batch.denominator == 9
    logp = torch.zeros(4, 4, requires_grad=True)
    output = DAPO().loss(logp, torch.zeros(4, 4), batch)
    assert output.loss == 1.0
    nothing = settle(
        whole.replace(truncated=torch.ones(4).bool()), DAPO(), lambda seen: without_truncated(seen)
    )
    empty = settle(without_truncated(nothing), DAPO(), lambda seen: seen)
    output = DAPO().loss(logp, torch.zeros(4, 4), empty)
    output.loss.backward()
    assert output.loss == 0
    assert torch.equal(logp.grad, torch.zeros(4, 4))
    assert all(torch.isfinite(value) for value in output.metrics.values())


def _lengths(truncated):
    """Report A1's completions of 10, 15 and 5 tokens, each token with a loss of 1."""
    mask = torch.arange(15)[None] < torch.tensor([10, 15, 5])[:, None]
    return without_truncated(
        Rollouts(
            input_ids=torch.zeros(3, 15).long(),
            attention_mask=mask,
            mask=mask,
            loss_mask=mask,
            group=torch.zeros(3).long(),
            reward=torch.zeros(3),
            correct=torch.zeros(3).bool(),
            truncated=torch.tensor(truncated),
            temperature=1.0,
            logp_old=torch.zeros(3, 15),
            entropy=torch.ones(3, 15),
            advantages=-torch.ones(3),
        )
    )


def _losses(rollouts, rows):
    """The parts that micro-batches of `rows` add to a step's loss, its gradient and metrics."""
    algorithm = DAPO()
    whole = settle(rollouts, algorithm, lambda seen: seen)
    logp = torch.zeros(3, 15, requires_grad=True)
    total, metrics = 0.0, []
    for some in rows:
        part = algorithm.loss(logp[some], torch.ones(len(some), 15), whole.rows(some))
        part.loss.backward()
        total += part.loss.item()
        metrics.append(part.metrics)
    return total, logp.grad, metrics


@pytest.mark.parametrize("rows", [[[0, 1, 2]], [[2, 0], [1]], [[0], [1], [2]]])
def test_a_completion_that_the_limit_cut_does_not_dilute_the_loss(rows):
    """Report A1: 25 kept tokens of loss 1 are 25 / 25 = 1.0, not 25 / 30, however they are cut."""
    total, gradient, _ = _losses(_lengths([False, False, True]), rows)
    assert total == pytest.approx(1.0, abs=1e-6)
    assert gradient[0, :10].tolist() == pytest.approx([1 / 25] * 10)
    assert gradient[1].tolist() == pytest.approx([1 / 25] * 15)
    assert gradient[2].tolist() == [0.0] * 15


@pytest.mark.parametrize("rows", [[[0, 1, 2]], [[0], [1], [2]]])
def test_a_step_of_nothing_but_cut_completions_has_no_gradient(rows):
    """Report A1, second case: loss and every gradient exactly 0, and all that is logged finite."""
    total, gradient, metrics = _losses(_lengths([True, True, True]), rows)
    assert total == 0.0
    assert gradient.tolist() == [[0.0] * 15] * 3
    assert all(bool(value.isfinite()) for part in metrics for value in part.values())
    assert {"kl/old", "ratio/mean"} <= metrics[0].keys()
    assert all(part["kl/old"].item() == 0.0 for part in metrics)

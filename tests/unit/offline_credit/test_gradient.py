"""Gradients of a step's credit at a tiny policy's weights."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPOS, GTPO, ForkingDAPO
from gtpo_lit.functional.selection import top_entropy_mask
from gtpo_lit.offline_credit import gradient, gradient_cosine
from gtpo_lit.offline_credit.gradient import gradient_norm
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.types import Rollouts


@pytest.fixture(scope="module")
def policy(tiny_qwen2):
    return PolicySpec(path=str(tiny_qwen2)).load()


@pytest.fixture(scope="module")
def rollouts(policy):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 60, (6, 9), generator=generator)
    mask = torch.arange(6)[None] < torch.tensor([6, 4, 5, 2, 6, 3])[:, None]
    attention = torch.cat([torch.ones(6, 3).bool(), mask], dim=1)
    with torch.no_grad():
        logp, entropy = policy(ids, attention, 6)
    correct = torch.tensor([True, False, False, True, True, False])
    return Rollouts(
        input_ids=ids,
        attention_mask=attention,
        mask=mask,
        loss_mask=mask,
        group=torch.tensor([0, 0, 0, 1, 1, 1]),
        reward=correct.float(),
        correct=correct,
        truncated=torch.zeros(6).bool(),
        temperature=1.0,
        logp_old=logp - 0.05 * mask,
        entropy=entropy,
    )


def credited(rollouts, algorithm):
    return rollouts.replace(advantages=algorithm.advantages(rollouts))


@pytest.mark.parametrize("algorithm", [GTPO(), GRPOS(), DAPO()])
def test_the_gradient_is_that_of_the_loss_over_the_whole_step(policy, rollouts, algorithm):
    step = credited(rollouts, algorithm)
    policy.zero_grad()
    logp, _ = policy(step.input_ids, step.attention_mask, 6)
    algorithm.loss(logp, None, step).loss.backward()
    wanted = [parameter.grad.clone() for parameter in policy.parameters()]
    for rows in (1, 4, 6):
        found = gradient(policy, step, algorithm, rows_per_forward=rows)
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_forking_tokens_are_selected_by_the_policy_s_entropies(policy, rollouts):
    algorithm = ForkingDAPO(fraction=0.3)
    step = credited(rollouts, algorithm)
    # Recorded entropies that name other tokens change nothing.
    found = gradient(policy, step.replace(entropy=-step.entropy), algorithm)
    chosen = top_entropy_mask(rollouts.entropy, rollouts.mask, 0.3)
    wanted = gradient(policy, step.replace(loss_mask=chosen), DAPO())
    assert gradient_norm(wanted) > 0
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-6)


def test_cosines_of_the_same_the_opposite_and_no_credit(policy, rollouts):
    base = gradient(policy, credited(rollouts, DAPO(dual_clip=None)), DAPO(dual_clip=None))
    wide = DAPO(clip_low=1.0, clip_high=9.0, dual_clip=None)
    step = credited(rollouts, wide)
    plain = gradient(policy, step, wide)
    twice = gradient(policy, step.replace(advantages=2 * step.advantages), wide)
    opposite = gradient(policy, step.replace(advantages=-step.advantages), wide)
    none = gradient(policy, step.replace(advantages=0 * step.advantages), wide)
    assert gradient_cosine(plain, base) == pytest.approx(1.0, abs=1e-6)
    assert gradient_cosine(twice, plain) == pytest.approx(1.0, abs=1e-6)
    assert gradient_norm(twice) == pytest.approx(2 * gradient_norm(plain), rel=1e-5)
    assert gradient_cosine(opposite, plain) == pytest.approx(-1.0, abs=1e-6)
    assert gradient_cosine(none, plain) is None


def test_cosine_and_norm_by_hand():
    first = [torch.tensor([[3.0, 0.0]]), torch.tensor([4.0])]
    second = [torch.tensor([[1.0, 2.0]]), torch.tensor([2.0])]
    assert gradient_norm(first) == 5.0
    assert gradient_cosine(first, second) == pytest.approx(11 / 15)

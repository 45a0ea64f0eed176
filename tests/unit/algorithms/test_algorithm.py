"""What an algorithm says of itself: the entropies it needs, its settings, its shaped rewards."""

import inspect

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, Algorithm, DrGRPO, ForkingDAPO
from gtpo_lit.types import Rollouts

PLAIN = [GRPO, lambda **options: DrGRPO(max_length=4, **options), DAPO, GSPO, ForkingDAPO]


class Own(Algorithm):
    def advantages(self, rollouts):
        return rollouts.reward


class OwnLoss(Own):
    def loss(self, logp, entropy, batch):
        return super().loss(logp, entropy, batch)


class OwnLossWithout(OwnLoss):
    needs_current_entropy = False


def test_only_those_that_never_read_the_sampling_entropies_may_leave_them_out():
    assert [make().uses_entropy for make in PLAIN] == [False] * 5
    # Whoever does not say is taken to read them.
    assert [make().uses_entropy for make in (GTPO, GRPOS, Own)] == [True] * 3


@pytest.mark.parametrize("make", [*PLAIN, GTPO, GRPOS])
def test_the_loss_needs_current_entropies_for_a_bonus_alone(make):
    assert make().needs_current_entropy is False
    assert make(entropy_bonus=0.01).needs_current_entropy is True


def test_an_overridden_loss_gets_entropies_unless_it_says_otherwise():
    needs = [make().needs_current_entropy for make in (Own, OwnLoss, OwnLossWithout)]
    assert needs == [False, True, False]


def small_step():
    return Rollouts(
        input_ids=torch.ones(3, 3).long(),
        attention_mask=torch.ones(3, 3).bool(),
        mask=torch.ones(3, 2).bool(),
        loss_mask=torch.ones(3, 2).bool(),
        group=torch.zeros(3).long(),
        reward=torch.tensor([1.0, 1.0, 0.0]),
        correct=torch.tensor([True, True, False]),
        truncated=torch.zeros(3).bool(),
        temperature=1.0,
        logp_old=torch.zeros(3, 2),
        entropy=torch.tensor([[1.0, 3.0], [3.0, 3.0], [0.5, 1.0]]),
    )


def test_shaped_rewards_by_hand():
    # At the first position the correct two share 2 as 1 : 3, at the second as 1 : 1.
    shaped = GTPO(alpha1=1.0, alpha2=0.1).shaped(small_step())
    assert shaped.tolist() == [
        pytest.approx([1.05, 1.1]),
        pytest.approx([1.15, 1.1]),
        pytest.approx([-1.1, -1.1]),
    ]
    # Mean entropies 2 and 3: shares 0.4 and 0.6 of 2.
    shaped = GRPOS(beta1=1.0, beta2=0.1).shaped(small_step())
    assert shaped.tolist() == pytest.approx([1.08, 1.12, -1.1])


@pytest.mark.parametrize("make", [*PLAIN, Own])
def test_without_shaping_there_are_no_shaped_rewards(make):
    assert make().shaped(small_step()) is None


@pytest.mark.parametrize("kind", [GRPO, DrGRPO, DAPO, ForkingDAPO, GSPO, GTPO, GRPOS])
def test_settings_build_the_same_algorithm_again(kind):
    options = {"clip_high": 0.5, **({"max_length": 9} if kind is DrGRPO else {})}
    first = kind(**options)
    assert first.settings.keys() == inspect.signature(kind).parameters.keys()
    assert first.settings["clip_high"] == 0.5
    assert kind(**first.settings).settings == first.settings


def test_settings_leave_out_what_an_own_algorithm_keeps_otherwise():
    class Other(Own):
        def __init__(self, weight=2.0, clip_low=0.1):
            super().__init__(clip_low=clip_low)
            self.half = weight / 2

    assert Other().settings == {"clip_low": 0.1}

"""What an algorithm says about the entropies that it needs."""

import pytest

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, Algorithm, DrGRPO, ForkingDAPO

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

"""Which algorithm becomes which other one, and under which exact conditions."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.types import Rollouts


def make_rollouts(rows=8, columns=5, *, ragged=True, seed=0, groups=2, correct=None):
    """A made step in float64: interleaved groups, ragged rows, entropies away from zero."""
    generator = torch.Generator().manual_seed(seed)
    lengths = (
        torch.randint(1, columns + 1, (rows,), generator=generator)
        if ragged
        else torch.full((rows,), columns)
    )
    mask = torch.arange(columns)[None] < lengths[:, None]
    if correct is None:
        correct = torch.rand(rows, generator=generator) < 0.5
        correct[:groups], correct[-groups:] = True, False
    return Rollouts(
        input_ids=torch.randint(1, 9, (rows, columns + 2), generator=generator),
        attention_mask=torch.cat([torch.ones(rows, 2).bool(), mask], dim=1),
        mask=mask,
        loss_mask=mask,
        group=torch.arange(rows) % groups,
        reward=correct.double(),
        correct=correct,
        truncated=torch.zeros(rows).bool(),
        temperature=1.0,
        logp_old=-torch.rand(rows, columns, generator=generator).double() * 3 * mask,
        entropy=(torch.rand(rows, columns, generator=generator).double() + 0.05) * mask,
    )


def loss_and_gradient(algorithm, rollouts, *, noise=0.0, seed=1):
    """The whole step as one mini-batch, at log-probs `noise` away from the old ones."""
    generator = torch.Generator().manual_seed(seed)
    shift = torch.randn(rollouts.mask.shape, generator=generator).double() * noise
    logp = (rollouts.logp_old + shift).requires_grad_()
    credited = rollouts.replace(advantages=algorithm.advantages(rollouts))
    selected = algorithm.select(credited)
    denominator = algorithm.denominator(credited, selected)
    batch = credited.replace(loss_mask=selected, denominator=denominator)
    loss = algorithm.loss(logp, torch.zeros_like(logp), batch).loss
    loss.backward()
    return loss.detach(), logp.grad


def assert_same_update(first, second, rollouts, *, noise):
    for one, other in zip(
        loss_and_gradient(first, rollouts, noise=noise),
        loss_and_gradient(second, rollouts, noise=noise),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def on_signs(rollouts):
    """The same outcomes as rewards of +1 and -1, the scale on which GTPO is anchored."""
    return rollouts.replace(reward=torch.where(rollouts.correct, 1.0, -1.0).double())


def test_anchored_gtpo_with_even_entropies_is_dapo_for_any_lengths():
    rollouts = make_rollouts()
    even = rollouts.replace(entropy=torch.full_like(rollouts.entropy, 0.7) * rollouts.mask)
    gtpo = GTPO(normalisation="anchored", dual_clip=10.0).advantages(even)
    dapo = DAPO().advantages(on_signs(rollouts))
    torch.testing.assert_close(gtpo, dapo[:, None] * rollouts.mask, rtol=0, atol=1e-12)


def test_joint_gtpo_without_entropy_is_grpo_times_a_known_factor():
    rollouts = make_rollouts(rows=12, columns=7, ragged=False)
    gtpo = GTPO(alpha2=0.0).advantages(rollouts)
    grpo = GRPO().advantages(on_signs(rollouts))
    size, length = 6, 7
    factor = ((size - 1 / length) / (size - 1)) ** 0.5
    wanted = factor * grpo[:, None].expand_as(gtpo)
    torch.testing.assert_close(gtpo, wanted, rtol=1e-5, atol=1e-6)


def test_grpo_s_without_entropy_has_grpos_advantages_and_its_update_while_nothing_is_clipped():
    rollouts = make_rollouts()
    grpo_s, grpo = GRPOS(beta2=0.0), GRPO(clip_low=0.2, clip_high=0.28)
    signs = on_signs(rollouts)
    torch.testing.assert_close(
        grpo_s.advantages(rollouts), grpo.advantages(signs), rtol=0, atol=1e-12
    )
    assert_same_update(grpo_s, grpo, signs, noise=0.02)


def test_forking_with_fraction_one_is_dapo():
    assert_same_update(ForkingDAPO(fraction=1.0), DAPO(), make_rollouts(), noise=0.3)


def test_dapo_with_equal_lengths_one_clip_and_no_dual_clip_is_grpo():
    rollouts = make_rollouts(ragged=False)
    dapo = DAPO(clip_high=0.2, dual_clip=None)
    assert_same_update(dapo, GRPO(), rollouts, noise=0.3)


def test_dr_grpo_is_the_group_mean_taken_off_and_a_constant_length():
    rollouts = make_rollouts()
    advantages = DrGRPO(max_length=10).advantages(rollouts)
    for name in (0, 1):
        members = rollouts.group == name
        rewards = rollouts.reward[members]
        torch.testing.assert_close(advantages[members], rewards - rewards.mean())
    loss, gradient = loss_and_gradient(DrGRPO(max_length=10), rollouts)
    wanted = -(advantages[:, None] * rollouts.mask).sum() / 10 / 8
    torch.testing.assert_close(loss, wanted)
    torch.testing.assert_close(gradient, -advantages[:, None] * rollouts.mask / 80)


def test_gspo_clips_whole_sequences():
    rollouts = make_rollouts(
        rows=2, columns=2, ragged=False, groups=1, correct=torch.tensor([True, False])
    )
    logp = rollouts.logp_old + torch.tensor([[0.1, -0.1], [0.3, -0.1]]).double()
    logp.requires_grad_()
    algorithm = GSPO()
    batch = rollouts.replace(advantages=algorithm.advantages(rollouts), denominator=torch.tensor(2))
    algorithm.loss(logp, torch.zeros(2, 2), batch).loss.backward()
    # Sequence ratios 1 and exp(0.1): the wrong one rose, and a rise of a wrong one is not clipped.
    credit = batch.advantages[1]
    ratio = torch.tensor(0.1).double().exp()
    torch.testing.assert_close(logp.grad[1], (-credit * ratio / 2 / 2).expand(2))


@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_grpo_s_without_entropy_is_gspo_under_the_same_mean_and_clip(mean, noise):
    clip = {"clip_low": 0.01, "clip_high": 0.02, "sequence_ratio": mean}
    assert_same_update(
        GRPOS(beta2=0.0, **clip), GSPO(**clip), on_signs(make_rollouts()), noise=noise
    )


def test_the_forking_threshold_is_over_the_whole_mini_batch_and_divides_by_what_is_kept():
    rollouts = make_rollouts(rows=4, columns=5, ragged=False)
    for over, units in (("selected", 4), ("all", 20)):
        algorithm = ForkingDAPO(denominator_over=over)
        selected = algorithm.select(rollouts)
        assert selected.sum() == 4
        assert algorithm.denominator(rollouts, selected) == units
        threshold = rollouts.entropy[selected].min()
        assert rollouts.entropy[~selected].max() <= threshold


def test_forking_over_all_tokens_does_not_count_what_the_overlong_filter_took_out():
    rollouts = make_rollouts(rows=4, columns=5, ragged=False)
    rollouts = rollouts.replace(loss_mask=rollouts.mask & (torch.arange(4) > 0)[:, None])
    algorithm = ForkingDAPO(denominator_over="all")
    selected = algorithm.select(rollouts)
    assert selected.sum() == 3
    assert not selected[0].any()
    assert algorithm.denominator(rollouts, selected) == 15


def test_an_entropy_bonus_pushes_the_entropy_up():
    rollouts = make_rollouts()
    plain, rival = GRPO(), GRPO(entropy_bonus=0.5)
    batch = rollouts.replace(
        advantages=plain.advantages(rollouts),
        denominator=plain.denominator(rollouts, rollouts.loss_mask),
    )
    entropy = torch.ones(8, 5).double().requires_grad_()
    difference = (
        rival.loss(rollouts.logp_old, entropy, batch).loss
        - plain.loss(rollouts.logp_old, entropy, batch).loss
    )
    difference.backward()
    assert difference.item() == pytest.approx(-0.5)
    lengths = rollouts.mask.sum(dim=1, keepdim=True)
    torch.testing.assert_close(entropy.grad, -0.5 * rollouts.mask.double() / lengths / 8)


@pytest.mark.parametrize(
    "algorithm",
    [GTPO(), GTPO(normalisation="anchored"), GRPOS(), GRPO(), DrGRPO(max_length=5), DAPO(), GSPO()],
    ids=lambda algorithm: type(algorithm).__name__,
)
@pytest.mark.parametrize("outcome", [True, False])
def test_groups_without_a_choice_give_no_update(algorithm, outcome):
    rollouts = make_rollouts(correct=torch.full((8,), outcome))
    loss, gradient = loss_and_gradient(algorithm, rollouts, noise=0.1)
    assert loss == 0
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("algorithm", [GTPO(), GRPOS(), GRPO(), DAPO()])
def test_a_penalty_lowers_the_credit_of_its_sequence(algorithm):
    rollouts = make_rollouts(ragged=False)
    row = int(rollouts.correct.nonzero()[0])
    penalty = torch.zeros(8).double()
    penalty[row] = -0.5
    plain = algorithm.advantages(rollouts)[row]
    lowered = algorithm.advantages(rollouts.replace(penalty=penalty))[row]
    assert bool((lowered < plain).all())


def test_diagnostics_of_even_and_uneven_shares():
    rollouts = make_rollouts(
        rows=4, columns=2, ragged=False, groups=1, correct=torch.tensor([True, True, False, False])
    )
    even = rollouts.replace(entropy=torch.ones(4, 2).double())
    algorithm = GTPO(normalisation="anchored")
    credited = even.replace(advantages=algorithm.advantages(even))
    found = algorithm.diagnostics(credited)
    assert found["shaping/effective_sequences"] == pytest.approx(2.0)
    assert found["shaping/conservation_gap"] < 1e-12
    assert found["shaping/changed_fraction"] == 0.0
    assert found["shaping/sign_flips_correct"] == found["shaping/sign_flips_wrong"] == 0.0
    assert found["groups/zero_variance_fraction"] == 0.0
    one = even.replace(entropy=torch.tensor([[9.0, 9.0], [0, 0], [9, 9], [0, 0]]).double())
    found = algorithm.diagnostics(one.replace(advantages=algorithm.advantages(one)))
    assert found["shaping/effective_sequences"] == pytest.approx(1.0)
    assert found["shaping/changed_fraction"] == 1.0


@pytest.mark.parametrize(
    ("build", "option"),
    [
        (lambda: GTPO(alpha1=-1), "alpha1"),
        (lambda: GTPO(alpha1=0, alpha2=0), "alpha2"),
        (lambda: GTPO(normalisation="other"), "normalisation"),
        (lambda: GTPO(scope="other"), "scope"),
        (lambda: GTPO(entropy_floor=-1), "entropy_floor"),
        (lambda: GTPO(entropy_clip=(0.3, 0.2)), "entropy_clip"),
        (lambda: GTPO(share_weights="other"), "share_weights"),
        (lambda: GTPO(clip_low=0), "clip_low"),
        (lambda: GTPO(clip_high=-1), "clip_high"),
        (lambda: GTPO(dual_clip=1.0), "dual_clip"),
        (lambda: GRPOS(beta2=float("nan")), "beta1"),
        (lambda: GRPOS(scale="other"), "scale"),
        (lambda: GRPOS(entropy_mean="other"), "entropy_mean"),
        (lambda: GRPOS(sequence_ratio="token"), r"sequence_ratio .*got 'token'"),
        (lambda: GSPO(sequence_ratio="other"), "sequence_ratio"),
        (lambda: GTPO(entropy_floor=float("inf")), "entropy_floor"),
        (lambda: DrGRPO(max_length=0), "max_length"),
        (lambda: DrGRPO(max_length=2**31), "max_length"),
        (lambda: GTPO(alpha2=1e39), "alpha2"),
        (lambda: GTPO(entropy_floor=1e39), "entropy_floor"),
        (lambda: GTPO(entropy_clip=(1e39, 1e39)), "entropy_clip"),
        (lambda: GRPO(entropy_bonus=float("inf")), "entropy_bonus"),
        (lambda: ForkingDAPO(fraction=0), "fraction"),
        (lambda: ForkingDAPO(denominator_over="other"), "denominator_over"),
        (lambda: GRPO(entropy_bonus=-1), "entropy_bonus"),
    ],
)
def test_options_out_of_range_are_named(build, option):
    with pytest.raises(ValueError, match=option):
        build()

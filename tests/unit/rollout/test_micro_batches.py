"""Loss and gradient do not depend on how a step is cut, padded, ordered or shared out."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.functional.surrogate import aggregate_tokens
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.rollout.collate import concatenate
from gtpo_lit.rollout.micro_batches import Cut, settle
from gtpo_lit.rollout.scoring import score
from gtpo_lit.types import Rollouts

ALGORITHMS = [
    GTPO(),
    GTPO(normalisation="anchored", scope="batch"),
    GTPO(normalisation="separate", share_weights="shuffled"),
    GRPOS(),
    GRPOS(scale="batch"),
    GRPO(),
    GRPO(entropy_bonus=0.1),
    DAPO(),
    GSPO(),
    DrGRPO(max_length=9),
    ForkingDAPO(),
    ForkingDAPO(denominator_over="all"),
]


@pytest.fixture(scope="module")
def policy(tiny_qwen2):
    return PolicySpec(path=str(tiny_qwen2)).load().eval()


@pytest.fixture(scope="module")
def step(policy):
    """Eight ragged sequences in two groups, one with a hole, scored by the policy."""
    generator = torch.Generator().manual_seed(0)
    prompts, lengths = torch.tensor([1, 3] * 4), torch.tensor([6, 2, 5, 3, 1, 6, 4, 2])
    ids = torch.randint(4, 60, (8, 9), generator=generator)
    places = torch.arange(9)[None]
    real = (places >= (3 - prompts)[:, None]) & (places < (3 + lengths)[:, None])
    mask = real[:, 3:].clone()
    mask[0, 2] = False
    correct = torch.tensor([1, 0, 0, 1, 1, 0, 0, 1]).bool()
    rollouts = Rollouts(
        input_ids=ids.masked_fill(~real, 0),
        attention_mask=real,
        mask=mask,
        loss_mask=mask,
        group=torch.arange(8) // 4,
        reward=correct.float(),
        correct=correct,
        truncated=torch.zeros(8).bool(),
        temperature=0.9,
        logp_old=torch.zeros(8, 6),
        entropy=torch.zeros(8, 6),
    )
    logp, entropy = score(policy, rollouts, rows_per_forward=3)
    shift = 0.1 * torch.randn(8, 6, generator=generator)
    return rollouts.replace(logp_old=(logp + shift) * mask, entropy=entropy)


def _update(policy, algorithm, batches):
    policy.zero_grad()
    total = 0.0
    for batch in batches:
        logp, entropy = policy(
            batch.input_ids,
            batch.attention_mask,
            batch.mask.shape[1],
            temperature=batch.temperature,
        )
        loss = algorithm.loss(logp, entropy, batch).loss
        loss.backward()
        total += loss.item()
    return total, {
        name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None
    }


def _cut(algorithm, step, *, ranks=1, micro_batches=1):
    credited = step.replace(advantages=algorithm.advantages(step))
    cut = Cut.of_step(
        8,
        passes=1,
        micro_batches=micro_batches,
        accumulate=micro_batches,
        ranks=ranks,
        max_tokens=None,
    )
    return [
        batch
        for rank in range(ranks)
        for batch in cut.yield_for(rank, credited, algorithm, lambda rollouts: rollouts)
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_loss_and_gradient_are_the_same_for_every_cut(policy, step, algorithm):
    wanted_loss, wanted = _update(policy, algorithm, _cut(algorithm, step))
    for ranks, micro_batches in ((1, 2), (1, 4), (1, 8), (2, 1), (2, 4), (4, 2)):
        batches = _cut(algorithm, step, ranks=ranks, micro_batches=micro_batches)
        assert len(batches) == ranks * micro_batches
        loss, gradients = _update(policy, algorithm, batches)
        assert loss == pytest.approx(wanted_loss, abs=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
def test_padding_and_order_change_nothing(policy, step, algorithm):
    wanted_loss, wanted = _update(policy, algorithm, _cut(algorithm, step))
    order = torch.tensor([5, 2, 7, 0, 3, 6, 1, 4])
    wide = concatenate([step, _padded_twin(step)]).rows(list(range(8)))
    for changed in (step.rows(order), wide):
        loss, gradients = _update(policy, algorithm, _cut(algorithm, changed))
        assert loss == pytest.approx(wanted_loss, abs=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, wanted[name], rtol=1e-6, atol=1e-6)


def _padded_twin(step):
    """One sequence of longer prompt and response, so that joining widens the others."""
    one = step.rows([0])
    grow = lambda value: torch.nn.functional.pad(value, (0, 3))  # noqa: E731
    return one.replace(
        input_ids=torch.nn.functional.pad(one.input_ids, (2, 3)),
        attention_mask=torch.nn.functional.pad(one.attention_mask, (2, 3)),
        **{name: grow(getattr(one, name)) for name in ("mask", "loss_mask", "logp_old", "entropy")},
    )


def test_a_short_step_is_filled_with_masked_micro_batches(policy, step):
    algorithm = GTPO()
    short = step.rows([0, 1, 2, 3])
    credited = short.replace(advantages=algorithm.advantages(short))
    cut = Cut(passes=1, mini_batches=1, micro_batches=4, ranks=2, rows=1)
    batches = [
        batch
        for rank in (0, 1)
        for batch in cut.yield_for(rank, credited, algorithm, lambda rollouts: rollouts)
    ]
    assert len(batches) == 8
    assert sum(bool(batch.loss_mask.any()) for batch in batches) == 4
    loss, gradients = _update(policy, algorithm, batches)
    wanted_loss, wanted = _update(policy, algorithm, [settle(credited, algorithm, lambda r: r)])
    assert loss == pytest.approx(wanted_loss, abs=1e-6)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)


def test_a_step_shorter_than_its_mini_batches_leaves_some_of_them_empty(policy, step):
    algorithm = DAPO()
    short = step.rows([0, 1])
    credited = short.replace(advantages=algorithm.advantages(short))
    cut = Cut(passes=1, mini_batches=4, micro_batches=1, ranks=1, rows=2)
    batches = list(cut.yield_for(0, credited, algorithm, lambda rollouts: rollouts))
    tokens = [int(batch.loss_mask.sum()) for batch in batches]
    assert tokens == [0, int(step.mask[0].sum()), 0, int(step.mask[1].sum())]
    assert [int(batch.denominator) for batch in batches] == tokens
    loss, gradients = _update(policy, algorithm, batches[:1])
    assert loss == 0
    assert all(not gradient.any() for gradient in gradients.values())


def test_every_mini_batch_carries_the_denominator_of_all_its_ranks(step):
    algorithm = DAPO()
    credited = step.replace(advantages=algorithm.advantages(step))
    cut = Cut.of_step(8, passes=2, micro_batches=4, accumulate=2, ranks=1, max_tokens=None)
    batches = list(cut.yield_for(0, credited, algorithm, lambda rollouts: rollouts))
    assert len(batches) == len(cut) == 8
    halves = [int(step.loss_mask[:4].sum()), int(step.loss_mask[4:].sum())]
    assert [int(batch.denominator) for batch in batches] == [
        halves[0],
        halves[0],
        halves[1],
        halves[1],
    ] * 2


def test_an_algorithm_that_selects_by_current_entropy_is_asked_when_its_mini_batch_begins(step):
    algorithm = ForkingDAPO(fraction=0.5)
    credited = step.replace(advantages=algorithm.advantages(step))
    cut = Cut.of_step(8, passes=1, micro_batches=2, accumulate=1, ranks=1, max_tokens=None)
    asked = []

    def rescore(rollouts):
        asked.append(len(rollouts.mask))
        return rollouts.replace(entropy=-rollouts.entropy)

    batches = cut.yield_for(0, credited, algorithm, rescore)
    first = next(batches)
    assert asked == [4]
    next(batches)
    assert asked == [4, 4]
    kept = step.entropy[:4][first.loss_mask[:, : step.mask.shape[1]]]
    assert kept.max() <= step.entropy[:4][step.mask[:4]].median() + 1e-6


def test_a_cap_on_tokens_says_which_number_to_raise(step):
    algorithm = GRPO()
    credited = step.replace(advantages=algorithm.advantages(step))
    cut = Cut.of_step(8, passes=1, micro_batches=2, accumulate=2, ranks=1, max_tokens=10)
    with pytest.raises(
        ValueError, match=r"over data.max_tokens_per_micro_batch = 10: raise data.m"
    ):
        list(cut.yield_for(0, credited, algorithm, lambda rollouts: rollouts))


def test_aggregation_of_the_kl_term_uses_the_same_denominators(step):
    values = torch.rand(8, 6, generator=torch.Generator().manual_seed(2))
    whole = aggregate_tokens(values, step.loss_mask, "token_mean")
    parts = sum(
        aggregate_tokens(
            values[i : i + 2],
            step.loss_mask[i : i + 2],
            "token_mean",
            denominator=step.loss_mask.sum(),
        )
        for i in range(0, 8, 2)
    )
    torch.testing.assert_close(parts, whole)

"""The correction of a whole step: its weights, its numbers, and what it leaves as it is."""

import math

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.rollout import exchange
from gtpo_lit.rollout.correction import MismatchCorrection, check_correction, gap_metrics
from gtpo_lit.rollout.exchange import gather_rollouts
from gtpo_lit.rollout.micro_batches import Cut
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.types import Rollouts

ALGORITHMS = [
    GTPO(),
    GRPOS(),
    GRPO(entropy_bonus=0.1),
    DAPO(),
    DrGRPO(max_length=9),
    GSPO(),
    ForkingDAPO(),
]
NAN = math.nan


def make_rollouts(logp_old, logp_sampler, mask):
    """One group of sequences without a prompt."""
    old, sampler = torch.tensor(logp_old), torch.tensor(logp_sampler)
    flags = torch.tensor(mask).bool()
    rows = len(flags)
    return Rollouts(
        input_ids=torch.ones(flags.shape, dtype=torch.long),
        attention_mask=torch.ones_like(flags),
        mask=flags,
        loss_mask=flags,
        group=torch.zeros(rows, dtype=torch.long),
        reward=torch.arange(rows).float(),
        correct=torch.arange(rows) % 2 == 1,
        truncated=torch.zeros(rows).bool(),
        temperature=1.0,
        logp_old=old,
        logp_sampler=sampler,
        entropy=torch.ones(flags.shape),
    )


def small_step():
    """Log ratios ln 4, hole, ln 1/2 | 0, missing, padding | an empty row."""
    return make_rollouts(
        [[math.log(4) - 9, -1.0, -math.log(2) - 1], [-1.0, -1.0, 0.0], [0.0, 0.0, 0.0]],
        [[-9.0, 7.0, -1.0], [-1.0, NAN, 5.0], [1.0, 1.0, 1.0]],
        [[1, 0, 1], [1, 1, 0], [0, 0, 0]],
    )


def random_step(rows=8, columns=6, *, gap=0.7):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, columns + 1, (rows,), generator=generator)
    mask = torch.arange(columns)[None] < lengths[:, None]
    mask[0, 0] = False
    old = -3 * torch.rand(rows, columns, generator=generator)
    sampler = old + gap * torch.randn(rows, columns, generator=generator)
    step = make_rollouts(old.tolist(), sampler.tolist(), mask.tolist())
    return step.replace(
        attention_mask=torch.arange(columns)[None] < lengths[:, None],
        group=torch.arange(rows) // 4,
        reward=(torch.arange(rows) % 2).float(),
        entropy=torch.rand(rows, columns, generator=generator) * mask,
        logp_old=step.logp_old * mask,
    )


def update(algorithm, step, *, micro_batches=1, noise=0.3):
    """Loss and gradient at log-probs a little away from the old ones, a table of them a step."""
    drift = noise * torch.randn(step.mask.shape, generator=torch.Generator().manual_seed(1))
    table = (step.logp_old + drift).requires_grad_()
    credited = step.replace(advantages=algorithm.advantages(step))
    numbered = credited.replace(input_ids=torch.arange(step.mask.numel()).view(step.mask.shape))
    cut = Cut.of_step(
        len(step.mask),
        passes=1,
        micro_batches=micro_batches,
        accumulate=micro_batches,
        ranks=1,
        max_tokens=None,
    )
    total = 0.0
    for batch in cut.yield_for(0, numbered, algorithm, lambda rollouts: rollouts):
        logp = table.flatten()[batch.input_ids]
        loss = algorithm.loss(logp, torch.ones_like(logp), batch).loss
        loss.backward()
        total += loss.item()
    return total, table.grad


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[2, 1, 0.5], [1, 1, 1], [1, 1, 1]]),
        ({"low": 0.75, "high": 5.0}, [[4, 1, 0.75], [1, 1, 1], [1, 1, 1]]),
        ({"bound": "mask"}, [[0, 1, 0.5], [1, 1, 1], [1, 1, 1]]),
        ({"bound": "mask", "low": 0.75, "high": 4.5}, [[4, 1, 0], [1, 1, 1], [1, 1, 1]]),
        ({"level": "sequence", "high": 3.0}, [[2, 1, 2], [1, 1, 1], [1, 1, 1]]),
        ({"level": "sequence", "high": 1.5}, [[1.5, 1, 1.5], [1, 1, 1], [1, 1, 1]]),
        ({"level": "sequence", "bound": "mask", "high": 1.5}, [[0, 1, 0], [1, 1, 1], [1, 1, 1]]),
    ],
    ids=str,
)
def test_weights_by_hand(options, wanted):
    weights = MismatchCorrection(**options).weights(small_step())
    torch.testing.assert_close(weights, torch.tensor(wanted).float())


def test_metrics_of_tokens_by_hand():
    """Raw weights 4, 1/2, 1 and, where none was reported, 1."""
    found = MismatchCorrection(high=2.0).metrics(small_step())
    assert found == pytest.approx(
        {
            "train/correction/weight_mean": 4.5 / 4,
            "train/correction/weight_min": 0.5,
            "train/correction/weight_max": 2.0,
            "train/correction/cut_fraction": 1 / 4,
            "train/correction/effective_sample_size": 4.5**2 / (4 * 6.25),
        }
    )


def test_metrics_of_sequences_count_living_ones_by_hand():
    """Raw weights 2 and 1; the third sequence has no token."""
    found = MismatchCorrection(level="sequence", bound="mask", high=1.5).metrics(small_step())
    assert found == pytest.approx(
        {
            "train/correction/weight_mean": 0.5,
            "train/correction/weight_min": 0.0,
            "train/correction/weight_max": 1.0,
            "train/correction/cut_fraction": 0.5,
            "train/correction/effective_sample_size": 0.5,
        }
    )


def test_the_gap_by_hand():
    """Log ratios ln 4, -ln 2 and 0 of four tokens, one of which was not reported."""
    two = math.log(2)
    assert gap_metrics(small_step()) == pytest.approx(
        {
            "train/sampler_gap/missing_fraction": 1 / 4,
            "train/sampler_gap/mean": 3 * two / 3,
            "train/sampler_gap/max": 2 * two,
            "train/sampler_gap/kl_k1": -two / 3,
            "train/sampler_gap/kl_k3": (4 - 1 - 2 * two + 0.5 - 1 + two) / 3,
            "train/sampler_gap/effective_sample_size": 5.5**2 / (3 * 17.25),
        },
        rel=1e-5,
    )


def test_nothing_but_the_missing_share_is_told_without_log_probs():
    step = small_step()
    every = {"train/sampler_gap/missing_fraction": 1.0}
    assert gap_metrics(step.replace(logp_sampler=None)) == every
    assert gap_metrics(step.replace(logp_sampler=torch.full((3, 3), NAN))) == every
    assert gap_metrics(step.rows([2])) == {"train/sampler_gap/missing_fraction": 0.0}


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("bound", ["truncate", "mask"])
def test_a_sampler_that_equals_the_policy_changes_no_bit(algorithm, level, bound):
    step = random_step(gap=0.0)
    correction = MismatchCorrection(level=level, bound=bound, low=1.0, high=1.0)
    weights = correction.weights(step)
    assert bool((weights == 1).all())
    plain = update(algorithm, step)
    weighted = update(algorithm, step.replace(correction=weights))
    assert weighted[0] == plain[0]
    assert torch.equal(weighted[1], plain[1])
    assert plain[1].abs().max() > 0


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda a: type(a).__name__)
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_any_cut_into_micro_batches_gives_the_same_update(algorithm, level):
    step = random_step()
    step = step.replace(correction=MismatchCorrection(level=level).weights(step))
    loss, gradient = update(algorithm, step)
    for micro_batches in (2, 4, 8):
        cut_loss, cut_gradient = update(algorithm, step, micro_batches=micro_batches)
        assert cut_loss == pytest.approx(loss, abs=1e-6)
        torch.testing.assert_close(cut_gradient, gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("algorithm", [GTPO(), GRPO(), GSPO()], ids=lambda a: type(a).__name__)
def test_equal_weights_scale_the_update_and_the_denominator_stays(algorithm):
    step = random_step()
    loss, gradient = update(algorithm, step)
    halves = step.replace(correction=torch.full(step.mask.shape, 0.5))
    half_loss, half_gradient = update(algorithm, halves)
    assert half_loss == pytest.approx(loss / 2, abs=1e-7)
    torch.testing.assert_close(half_gradient, gradient / 2, rtol=1e-6, atol=1e-8)


def test_masked_sequences_shrink_the_update_and_the_rest_is_not_scaled_up():
    step, algorithm = random_step(), GRPO()
    _, gradient = update(algorithm, step)
    weights = torch.ones(step.mask.shape)
    weights[2:5] = 0.0
    _, masked = update(algorithm, step.replace(correction=weights))
    assert masked[2:5].abs().max() == 0
    kept = [0, 1, 5, 6, 7]
    assert torch.equal(masked[kept], gradient[kept])


def test_two_ranks_know_what_one_knows(monkeypatch):
    step = random_step()
    narrow = step.rows([4, 5, 6, 7])
    parts = [step.rows([0, 1, 2, 3]), narrow]
    monkeypatch.setattr(exchange, "all_gather", lambda value: parts)
    gathered = gather_rollouts(parts[0])
    assert gap_metrics(gathered) == gap_metrics(step)
    for correction in (MismatchCorrection(), MismatchCorrection(level="sequence", bound="mask")):
        assert torch.equal(correction.weights(gathered), correction.weights(step))
        assert correction.metrics(gathered) == correction.metrics(step)


def test_one_rank_without_log_probs_leaves_all_ranks_without(monkeypatch):
    step = random_step()
    parts = [step.rows([0, 1]), step.rows([2, 3]).replace(logp_sampler=None)]
    for order in (parts, parts[::-1]):
        monkeypatch.setattr(exchange, "all_gather", lambda value, order=order: order)
        gathered = gather_rollouts(order[0])
        assert gathered.logp_sampler is None
        assert gathered.logp_old.shape == (4, 6)


class Silent(TransformersSampler):
    reports_logprobs = False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "word"}, r"data.correction.level must be one of .*, got 'word'"),
        ({"bound": "drop"}, r"data.correction.bound must be one of .*, got 'drop'"),
        ({"low": -0.1}, r"data.correction.low must be in \[0, 1\], got -0.1"),
        ({"low": 1.5}, r"data.correction.low must be in \[0, 1\], got 1.5"),
        ({"low": NAN}, r"data.correction.low must be in \[0, 1\], got nan"),
        ({"high": 0.9}, "data.correction.high must be at least 1 and finite, got 0.9"),
        ({"high": math.inf}, "data.correction.high must be at least 1 and finite, got inf"),
        ({"high": NAN}, "data.correction.high must be at least 1 and finite, got nan"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        check_correction(MismatchCorrection(**options), TransformersSampler())


def test_a_correction_that_could_tell_nothing_is_refused():
    with pytest.raises(ValueError, match=r"data.correction needs .* data.sampler is Silent"):
        check_correction(MismatchCorrection(), Silent())
    check_correction(None, Silent())

"""Ten optimiser steps on stored rollouts, for every algorithm: a refactor shows the same curve.

The numbers in `golden_curves.json` were written by this file's `curve`; the data are made here from
a fixed seed, without sampling.
"""

import json
from pathlib import Path

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.functional.logprob import logits_logprob_entropy
from gtpo_lit.types import Rollouts

ALGORITHMS = {
    "gtpo_joint": GTPO(),
    "gtpo_separate": GTPO(normalisation="separate"),
    "gtpo_anchored": GTPO(normalisation="anchored", scope="batch"),
    "grpo_s": GRPOS(),
    "grpo": GRPO(),
    "dr_grpo": DrGRPO(max_length=6),
    "dapo": DAPO(),
    "gspo": GSPO(),
    "forking_dapo": ForkingDAPO(),
}
GOLDEN = Path(__file__).with_name("golden_curves.json")


def stored_step():
    """Sixteen sequences in two groups over a vocabulary of seven, by a table of logits."""
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(6, 7, generator=generator)
    tokens = torch.stack(
        [torch.multinomial(row.softmax(-1), 16, True, generator=generator) for row in table], dim=1
    )
    lengths = torch.randint(2, 7, (16,), generator=generator)
    mask = torch.arange(6)[None] < lengths[:, None]
    logp, entropy = logits_logprob_entropy(table.expand(16, 6, 7), tokens)
    correct = tokens[:, 0] % 2 == 0
    rollouts = Rollouts(
        input_ids=tokens,
        attention_mask=mask,
        mask=mask,
        loss_mask=mask,
        group=torch.arange(16) % 2,
        reward=correct.float(),
        correct=correct,
        truncated=lengths == 6,
        temperature=1.0,
        logp_old=logp * mask,
        # One table for all rows gives even entropies; as in a real policy, theirs differ.
        entropy=entropy * (0.5 + torch.rand(16, 6, generator=generator)) * mask,
    )
    return table, tokens, rollouts


def curve(algorithm):
    """Losses of ten steps of plain gradient descent."""
    table, tokens, rollouts = stored_step()
    table.requires_grad_()
    rollouts = rollouts.replace(advantages=algorithm.advantages(rollouts))
    losses = []
    for _ in range(10):
        logp, entropy = logits_logprob_entropy(table.expand(16, 6, 7), tokens)
        seen = rollouts.replace(entropy=entropy.detach() * rollouts.mask)
        selected = algorithm.select(seen)
        denominator = algorithm.denominator(rollouts, selected)
        batch = rollouts.replace(loss_mask=selected, denominator=denominator)
        loss = algorithm.loss(logp, entropy, batch).loss
        (gradient,) = torch.autograd.grad(loss, table)
        table.data -= 0.5 * gradient
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_curve_is_the_stored_one(name):
    stored = json.loads(GOLDEN.read_text())[name]
    assert curve(ALGORITHMS[name]) == pytest.approx(stored, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_curve_repeats_to_the_bit(name):
    assert curve(ALGORITHMS[name]) == curve(ALGORITHMS[name])


def test_curves_of_different_algorithms_differ():
    stored = json.loads(GOLDEN.read_text())
    assert len({tuple(losses) for losses in stored.values()}) == len(ALGORITHMS)

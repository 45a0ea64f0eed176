"""Recorded steps made by hand, for the tests of what reads them."""

import torch

from gtpo_lit.algorithms import GTPO
from gtpo_lit.recorded import Sampled, record_step
from gtpo_lit.types import Rollouts

WORDS = {1: "<eos>", 2: "a", 3: "</script>", 4: " b", 5: "\u202e", 6: "\U0001f600", 7: "\n", 8: "7"}


def decode(ids):
    return "".join(WORDS[number] for number in ids)


def rollouts_of(*, logp_ref=None, sampler=True, penalty=None):
    """Two groups of two; the second row has a hole, the last prompt is shorter than the others."""
    ids = torch.tensor(
        [
            [2, 4, 8, 2, 1, 0],
            [2, 4, 3, 4, 5, 1],
            [2, 8, 6, 1, 0, 0],
            [0, 8, 7, 2, 2, 2],
        ]
    )
    real = ids > 0
    mask = real[:, 2:].clone()
    mask[1, 2] = False
    generator = torch.Generator().manual_seed(3)
    numbers = [torch.rand(mask.shape, generator=generator) * mask for _ in range(3)]
    gap = torch.where(mask, -numbers[2], 0.0)
    gap[0, 1] = float("nan")
    return Rollouts(
        input_ids=ids,
        attention_mask=real,
        mask=mask,
        loss_mask=mask & torch.tensor([True, True, True, False])[:, None],
        group=torch.tensor([4, 4, 9, 9]),
        reward=torch.tensor([1.0, 0.0, 0.0, 1.1]),
        correct=torch.tensor([True, False, False, True]),
        truncated=torch.tensor([False, False, False, True]),
        temperature=0.7,
        logp_old=-numbers[0],
        entropy=numbers[1],
        penalty=penalty,
        logp_ref=logp_ref,
        logp_sampler=gap if sampler else None,
    )


def sampled(rows=4):
    return [
        Sampled(
            problem=f"p/{row // 2}",
            source="made",
            reference="7",
            sample=row % 2,
            text=f"text {row} \u202e \U0001f600",
            answer="7" if row == 0 else None,
        )
        for row in range(rows)
    ]


def make_step(algorithm=None, step=10, **options):
    algorithm = algorithm or GTPO()
    rollouts = rollouts_of(**options)
    rollouts = rollouts.replace(advantages=algorithm.advantages(rollouts))
    return record_step(rollouts, sampled(), step=step, algorithm=algorithm, decode=decode)

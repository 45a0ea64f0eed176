"""A recorded step of many long responses, made without a model."""

import torch

from gtpo_lit.algorithms import GTPO
from gtpo_lit.recorded import Sampled, record_step
from gtpo_lit.types import Rollouts

WORDS = [
    " the", " so", " we", " sum", ",", ".\n", " 7", " + ", " = ", "\n\n", " carry", "Hmm", " wait",
    "\t", "</script><b>x</b>", "\u202eabc", "\U0001f468\u200d\U0001f469", "", "\u0645\u0631",
]  # fmt: skip


def big_step(rows=128, columns=512, groups=8):
    """Every row has all its tokens; entropies are skewed, as those of a policy are."""
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(rows, columns).bool()
    ids = torch.randint(0, len(WORDS), (rows, columns), generator=generator)
    correct = torch.arange(rows) % 5 < 2
    logp = -torch.rand(rows, columns, generator=generator)
    noise = 0.01 * torch.randn(rows, columns, generator=generator)
    rollouts = Rollouts(
        input_ids=torch.cat([torch.ones(rows, 1).long(), ids], dim=1),
        attention_mask=torch.ones(rows, columns + 1).bool(),
        mask=mask,
        loss_mask=mask,
        group=torch.arange(rows) // (rows // groups),
        reward=correct.float(),
        correct=correct,
        truncated=torch.zeros(rows).bool(),
        temperature=1.0,
        logp_old=logp,
        entropy=3 * torch.rand(rows, columns, generator=generator) ** 4,
        logp_sampler=logp + noise,
    )
    algorithm = GTPO()
    rollouts = rollouts.replace(advantages=algorithm.advantages(rollouts))
    each = rows // groups
    sampled = [Sampled(f"made/{k // each}", "made", "42", k % each, "", None) for k in range(rows)]
    decode = lambda ids: "".join(WORDS[number] for number in ids)  # noqa: E731
    return record_step(rollouts, sampled, step=10, algorithm=algorithm, decode=decode)

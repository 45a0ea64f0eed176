"""Measures a chains policy: how often it is right, by which strategy, and how much room is left.

Run it as ``python -m gtpo_lit.embedded.measure FOLDER``.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from gtpo_lit.embedded.demonstrations import is_stepwise
from gtpo_lit.tasks import ChainSource, ExactReward
from gtpo_lit.types import Problem

MAX_TOKENS = 40


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What sampling at temperature 1 shows. Entropy in nats, length in tokens with the end token.

    The accuracy of a strategy that was never sampled is NaN.
    """

    problems: int
    samples: int
    pass_at_1: float
    pass_at_all: float
    """Share of problems with a right answer among all `samples`."""
    mixed_groups: float
    """Share of groups of 8 that hold right and wrong answers."""
    stepwise_share: float
    stepwise_right: float
    direct_right: float
    mean_length: float
    mean_entropy: float
    """Over all response tokens."""
    truncated: float
    """Share of responses that the limit of tokens cut."""

    def lines(self) -> list[str]:
        """One line of text for each figure."""
        return [
            f"{field.name:15s} {value:.4f}"
            if isinstance(value, float)
            else f"{field.name:15s} {value}"
            for field in dataclasses.fields(self)
            for value in [getattr(self, field.name)]
        ]


@torch.no_grad()
def sample(
    model: Any, prompts: Tensor, *, generator: torch.Generator, max_tokens: int = MAX_TOKENS
) -> tuple[Tensor, Tensor, Tensor]:
    """Responses at temperature 1 to prompts of one length ([B, P] int64, no padding).

    Returns:
        Response ids [B, T], pad after the end token; mask [B, T], true up to the end token; and
        entropies [B, T] in nats, 0 where masked.
    """
    end, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id
    alive = torch.ones(len(prompts), dtype=torch.bool)
    ids, masks, entropies, cache, current = [], [], [], None, prompts
    for _ in range(max_tokens):
        output = model(input_ids=current, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        logp = output.logits[:, -1].float().log_softmax(dim=-1)
        token = torch.multinomial(logp.exp(), 1, generator=generator)[:, 0]
        ids.append(torch.where(alive, token, pad))
        masks.append(alive)
        entropies.append(torch.where(alive, -(logp.exp() * logp).sum(dim=-1), 0.0))
        alive = alive & (token != end)
        current = ids[-1][:, None]
        if not alive.any():
            break
    return torch.stack(ids, dim=1), torch.stack(masks, dim=1), torch.stack(entropies, dim=1)


def measure(
    model: Any, tokenizer: Any, problems: Sequence[Problem], *, samples: int = 32, seed: int = 0
) -> Measurement:
    """Sample each problem `samples` times, a multiple of 8, and count."""
    if samples < 8 or samples % 8:
        raise ValueError(f"samples must be a multiple of 8, got {samples}")
    encoded = tokenizer([problem.question for problem in problems])["input_ids"]
    prompts = torch.tensor(encoded).repeat_interleave(samples, dim=0)
    generator = torch.Generator().manual_seed(seed)
    ids, mask, entropy = sample(model, prompts, generator=generator)
    texts = tokenizer.batch_decode(ids, skip_special_tokens=True)
    answers = [problem.answer for problem in problems for _ in range(samples)]
    right = torch.tensor(ExactReward(extract="last_equals").score(texts, answers)).double()
    stepwise = torch.tensor([is_stepwise(text) for text in texts])
    groups = right.view(-1, 8).sum(dim=1)
    by_problem = right.view(len(problems), samples)
    ended = (ids == model.generation_config.eos_token_id).any(dim=1)
    return Measurement(
        problems=len(problems),
        samples=samples,
        pass_at_1=right.mean().item(),
        pass_at_all=by_problem.amax(dim=1).mean().item(),
        mixed_groups=((groups > 0) & (groups < 8)).double().mean().item(),
        stepwise_share=stepwise.double().mean().item(),
        stepwise_right=right[stepwise].mean().item(),
        direct_right=right[~stepwise].mean().item(),
        mean_length=mask.sum(dim=1).double().mean().item(),
        mean_entropy=(entropy.double().sum() / mask.sum()).item(),
        truncated=(~ended).double().mean().item(),
    )


def main() -> None:
    """Measure the folder of a policy on validation problems and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--problems", type=int, default=128)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    source = ChainSource(split="validation", size=options.problems)
    problems = [source.problem(index) for index in range(len(source))]
    found = measure(model, tokenizer, problems, samples=options.samples, seed=options.seed)
    print("\n".join(found.lines()))


if __name__ == "__main__":
    main()

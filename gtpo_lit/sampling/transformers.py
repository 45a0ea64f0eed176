"""Sampling in process, with the very weights that are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from transformers import (
    DynamicCache,
    LogitsProcessorList,
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from gtpo_lit.functional.logprob import logits_logprob_entropy
from gtpo_lit.policy import CausalPolicy, position_ids
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings


class TransformersSampler(Sampler):
    """Draws from the policy by its own forward, every row with its own random stream.

    A row's token at each position is the argmax of p / e with exponential noise e from the row's
    generator, which draws from p. Log-probs and entropies are those of the tempered distribution,
    before top-p, top-k and min-p. Requests run in batches of a fixed number, so that ranks whose
    shares hold whole batches run the same batches as one rank would, to the bit.

    Args:
        requests_per_batch: problems sampled at a time.
    """

    def __init__(self, requests_per_batch: int = 8) -> None:
        if requests_per_batch < 1:
            raise ValueError(
                f"sampler.requests_per_batch must be at least 1, got {requests_per_batch}"
            )
        self.requests_per_batch = requests_per_batch
        self._policy: CausalPolicy | None = None

    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Remember the policy; its weights are shared, not copied."""
        self._policy = policy

    @torch.no_grad()
    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        Temperature 0 takes the likeliest token and reports log-probs at temperature 1.

        Raises:
            ValueError: for a prompt without a token, or one that leaves no room for
                `settings.max_tokens` in the model's positions.
        """
        assert self._policy is not None, "push_weights comes first"
        limit = self._policy.max_positions
        for request in requests:
            total = len(request.prompt_ids) + settings.max_tokens
            if not request.prompt_ids:
                raise ValueError("a prompt without a token cannot be sampled from")
            if limit is not None and total > limit:
                raise ValueError(
                    f"a prompt of {len(request.prompt_ids)} tokens and sampling.max_tokens = "
                    f"{settings.max_tokens} exceed the model's {limit} positions"
                )
        results = []
        training = self._policy.training
        self._policy.eval()
        try:
            for start in range(0, len(requests), self.requests_per_batch):
                batch = requests[start : start + self.requests_per_batch]
                results += _Draw(self._policy, batch, settings).run()
        finally:
            self._policy.train(training)
        return results


@dataclass
class _Step:
    """What one decoding step gives: tokens, log-probs and entropies of the rows still open."""

    rows: Tensor
    tokens: Tensor
    logprobs: Tensor
    entropies: Tensor


class _Draw:
    """One batch of requests, decoded until every row has ended or is full."""

    def __init__(
        self, policy: CausalPolicy, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> None:
        self.policy, self.settings = policy, settings
        self.device = next(policy.parameters()).device
        self.sizes = [len(request.seeds) for request in requests]
        prompts = [request.prompt_ids for request in requests for _ in request.seeds]
        width = max((len(prompt) for prompt in prompts), default=0)
        self.ids = torch.zeros((len(prompts), width), dtype=torch.long)
        self.mask = torch.zeros((len(prompts), width), dtype=torch.bool)
        for row, prompt in enumerate(prompts):
            self.ids[row, width - len(prompt) :] = torch.tensor(prompt)
            self.mask[row, width - len(prompt) :] = True
        self.generators = [
            torch.Generator(self.device).manual_seed(seed)
            for request in requests
            for seed in request.seeds
        ]
        self.warpers = LogitsProcessorList()
        if settings.top_k:
            self.warpers.append(TopKLogitsWarper(settings.top_k))
        if settings.top_p < 1:
            self.warpers.append(TopPLogitsWarper(settings.top_p))
        if settings.min_p > 0:
            self.warpers.append(MinPLogitsWarper(settings.min_p))

    def run(self) -> list[list[Completion]]:
        """Decode; rows that have ended are dropped from the cache."""
        if not len(self.ids):
            return [[] for _ in self.sizes]
        steps: list[_Step] = []
        rows = torch.arange(len(self.ids), device=self.device)
        ids, mask = self.ids.to(self.device), self.mask.to(self.device)
        ends = torch.tensor(self.policy.end_token_ids, dtype=torch.long, device=self.device)
        cache = DynamicCache(config=self.policy.model.config)
        tokens = ids
        for _ in range(self.settings.max_tokens):
            logits = self.policy.model(
                input_ids=tokens,
                attention_mask=mask.long(),
                position_ids=position_ids(mask)[:, -tokens.shape[1] :],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            step = self._choose(logits, rows)
            steps.append(step)
            is_open = ~torch.isin(step.tokens, ends)
            if not bool(is_open.any()):
                break
            tokens = step.tokens[:, None]
            mask = torch.cat([mask, torch.ones_like(tokens, dtype=torch.bool)], dim=1)
            if not bool(is_open.all()):
                kept = is_open.nonzero().squeeze(1)
                cache.batch_select_indices(kept)
                rows, tokens, mask = rows[kept], tokens[kept], mask[kept]
        return self._completions(steps)

    def _choose(self, logits: Tensor, rows: Tensor) -> _Step:
        temperature = self.settings.temperature
        scaled = logits.float() / (temperature or 1.0)
        if temperature == 0:
            tokens = scaled.argmax(dim=-1)
        else:
            prompts = cast(torch.LongTensor, self.ids.to(rows.device)[rows])
            seen: Tensor = self.warpers(prompts, cast(torch.FloatTensor, scaled))
            noise = torch.empty_like(seen)
            for place, row in enumerate(rows.tolist()):
                noise[place].exponential_(generator=self.generators[row])
            noise.clamp_(min=torch.finfo(noise.dtype).tiny)
            tokens = (seen - noise.log()).argmax(dim=-1)
        logp, entropy = logits_logprob_entropy(scaled, tokens)
        return _Step(rows=rows, tokens=tokens, logprobs=logp, entropies=entropy)

    def _completions(self, steps: Sequence[_Step]) -> list[list[Completion]]:
        ids: list[list[int]] = [[] for _ in range(len(self.ids))]
        logprobs: list[list[float]] = [[] for _ in range(len(self.ids))]
        entropies: list[list[float]] = [[] for _ in range(len(self.ids))]
        for step in steps:
            columns = (step.rows, step.tokens, step.logprobs, step.entropies)
            for row, token, logp, entropy in zip(*(c.tolist() for c in columns), strict=True):
                ids[row].append(token)
                logprobs[row].append(logp)
                entropies[row].append(entropy)
        texts = self.policy.tokenizer.batch_decode(ids, skip_special_tokens=True)
        flat = [
            Completion(
                token_ids=tuple(ids[row]),
                text=texts[row],
                finish_reason="stop" if ids[row][-1] in self.policy.end_token_ids else "length",
                logprobs=tuple(logprobs[row]),
                entropies=tuple(entropies[row]),
            )
            for row in range(len(ids))
        ]
        starts = [sum(self.sizes[:index]) for index in range(len(self.sizes))]
        return [flat[start : start + size] for start, size in zip(starts, self.sizes, strict=True)]

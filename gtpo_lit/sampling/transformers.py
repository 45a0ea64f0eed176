"""Sampling with the trainer's own model, in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gtpo_lit.eval_mode import eval_mode
from gtpo_lit.functional.logprob import logits_logprob, logits_logprob_entropy
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.settings import check_settings
from gtpo_lit.sampling.streams import gumbel_noise
from gtpo_lit.sharding import copy_weights, is_sharded, whole_twin
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings

if TYPE_CHECKING:  # transformers takes seconds to import
    from transformers.cache_utils import Cache


class TransformersSampler(Sampler):
    """Draws from the policy object itself, with exact log-probs, and entropies if asked for.

    Every row has its own random stream, so its tokens do not depend on the rows beside it, up to
    rounding in the model. Requests are cut into fixed batches: with slices that are multiples of
    `requests_per_batch`, several ranks run the very same batches as one rank would, bit for bit.
    """

    def __init__(self, *, requests_per_batch: int = 8) -> None:
        """Run `requests_per_batch` prompts, with all their completions, at a time.

        Raises:
            ValueError: `requests_per_batch` is below 1.
        """
        if requests_per_batch < 1:
            raise ValueError(f"requests_per_batch must be at least 1, got {requests_per_batch}")
        self.requests_per_batch = requests_per_batch
        self.version: int | None = None
        self._policy: CausalPolicy | None = None
        self._source: CausalPolicy | None = None
        self._with_entropy = False

    def ask_for_entropies(self) -> None:
        """From now on, report `Completion.entropies`; they cost a pass over all logits a token."""
        self._with_entropy = True

    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Keep a reference to `policy`; its weights are always current.

        A policy that is split over ranks is drawn from by a whole copy on each of them, since
        ranks need different numbers of forwards. It gets new weights here, on all ranks at once.
        """
        if not is_sharded(policy):
            self._policy, self.version = policy, version
            return
        if self.version == version and self._source is policy:
            return
        if self._source is not policy:
            self._policy, self._source = whole_twin(policy), policy
        assert self._policy is not None
        copy_weights(policy, self._policy)
        self.version = version

    @torch.no_grad()
    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        Log-probs and entropies are those of the whole softmax at the sampling temperature, even
        if top-p, top-k or min-p cut what is drawn from. Temperature 0 takes the likeliest token
        (log-probs and entropies at temperature 1). Global random streams stay untouched.

        Raises:
            ValueError: settings out of range, an empty prompt, or a prompt that leaves no room
                for `max_tokens` within the model's positions.
        """
        assert self._policy is not None, "push_weights comes before generate"
        check_settings(settings)
        _check_lengths(requests, settings.max_tokens, self._policy.max_positions)
        completions: list[list[Completion]] = []
        with eval_mode(self._policy):
            for start in range(0, len(requests), self.requests_per_batch):
                batch = requests[start : start + self.requests_per_batch]
                rows = iter(_draw(self._policy, batch, settings, self._with_entropy))
                completions += [[next(rows) for _ in request.seeds] for request in batch]
        return completions


def _check_lengths(
    requests: Sequence[SampleRequest], max_tokens: int, max_positions: int | None
) -> None:
    for request in requests:
        length = len(request.prompt_ids)
        if length == 0:
            raise ValueError("a prompt must have at least one token, got an empty one")
        if max_positions is not None and length + max_tokens > max_positions:
            raise ValueError(
                f"a prompt of {length} tokens with max_tokens={max_tokens} is longer than the "
                f"{max_positions} positions of the model"
            )


def _draw(
    policy: CausalPolicy,
    requests: Sequence[SampleRequest],
    settings: SamplingSettings,
    with_entropy: bool,
) -> list[Completion]:
    """Completions of a batch, request after request. Finished rows leave the batch at once."""
    device = next(policy.parameters()).device
    seeds = torch.tensor([s for r in requests for s in r.seeds], dtype=torch.long, device=device)
    ends = torch.tensor(policy.end_token_ids, dtype=torch.long, device=device)
    drawn: list[list[tuple[Any, ...]]] = [[] for _ in seeds]
    ids, attention, logits, cache = _start(policy, requests, device)
    rows = torch.arange(len(seeds), device=device)
    for step in range(settings.max_tokens):
        token, *scores = _choose(logits, seeds[rows], step, settings, with_entropy)
        values = zip(*(column.tolist() for column in (token, *scores)), strict=True)
        for row, value in zip(rows.tolist(), values, strict=True):
            drawn[row].append(value)
        keep = (~torch.isin(token, ends)).nonzero().squeeze(-1)
        if len(keep) == 0 or step + 1 == settings.max_tokens:
            break
        if len(keep) < len(rows):
            _select(cache, keep)
        ids = torch.cat((ids, token[:, None]), dim=1)[keep]
        attention = torch.nn.functional.pad(attention, (0, 1), value=True)[keep]
        rows = rows[keep]
        logits, cache = policy.next_token_logits(ids, attention, cache)
    return [_completion(policy, values) for values in drawn]


def _start(
    policy: CausalPolicy, requests: Sequence[SampleRequest], device: torch.device
) -> tuple[Tensor, Tensor, Tensor, Cache | None]:
    """Prompts [N, P], attention mask [N, P], first logits [N, V] and cache, a row for each seed."""
    ids, attention = _left_pad(requests, policy.pad_token_id, device)
    # A prompt runs once; all its completions start from the same cache.
    logits, cache = policy.next_token_logits(ids, attention)
    counts = torch.tensor([len(request.seeds) for request in requests], device=device)
    prompt = torch.arange(len(requests), device=device).repeat_interleave(counts)
    _select(cache, prompt)
    return ids[prompt], attention[prompt], logits[prompt], cache


def _select(cache: Any, rows: Tensor) -> None:
    """Make `rows` [N] of a cache, repeated or left out at will, its new rows."""
    if cache is not None:
        cache.reorder_cache(rows)


def _left_pad(
    requests: Sequence[SampleRequest], pad_token_id: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Prompts [N, P] and their attention mask [N, P]."""
    width = max(len(request.prompt_ids) for request in requests)
    gaps = [width - len(request.prompt_ids) for request in requests]
    ids = [[pad_token_id] * gap + list(r.prompt_ids) for gap, r in zip(gaps, requests, strict=True)]
    attention = torch.arange(width) >= torch.tensor(gaps)[:, None]
    return torch.tensor(ids, device=device), attention.to(device)


def _choose(
    logits: Tensor, seeds: Tensor, step: int, settings: SamplingSettings, with_entropy: bool
) -> tuple[Tensor, ...]:
    """Tokens [N] drawn from logits [N, V], with their log-probs, and the entropies if wanted."""
    temperature = settings.temperature or 1.0
    scores = _cut(logits / temperature, settings)
    if settings.temperature > 0:
        scores = scores + gumbel_noise(seeds, step, logits.shape[-1])
    token = scores.argmax(dim=-1)
    if with_entropy:
        return token, *logits_logprob_entropy(logits, token, temperature)
    return token, logits_logprob(logits, token, temperature)


def _cut(scores: Tensor, settings: SamplingSettings) -> Tensor:
    """Scores [N, V] with -inf on every token that top-k, top-p or min-p leave out."""
    from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    warpers: list[Any] = []
    if settings.top_k > 0:
        warpers.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1:
        warpers.append(TopPLogitsWarper(settings.top_p))
    if settings.min_p > 0:
        warpers.append(MinPLogitsWarper(settings.min_p))
    for warper in warpers:
        scores = warper(None, scores)  # none of them reads the tokens before
    return scores


def _completion(policy: CausalPolicy, drawn: Sequence[tuple[Any, ...]]) -> Completion:
    token_ids, logprobs, *entropies = zip(*drawn, strict=True)
    stopped = token_ids[-1] in policy.end_token_ids
    # An end token need not be special for the tokenizer; it is never part of the text.
    shown = token_ids[:-1] if stopped else token_ids
    return Completion(
        token_ids=token_ids,
        text=str(policy.tokenizer.decode(list(shown), skip_special_tokens=True)),
        finish_reason="stop" if stopped else "length",
        logprobs=logprobs,
        entropies=entropies[0] if entropies else None,
    )

"""The dataclasses that a batch passes through, one for each arrow of the data flow.

``Problem -> Completion -> Graded -> Rollouts -> (advantages) -> LossOutput``

Shape legend, used throughout the package: B sequences (groups of G), P prompt positions
(left-padded), T response positions (right-padded), L = P + T, V vocabulary, H hidden size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

FinishReason = Literal["stop", "length"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One row of a problem source: a question with a known answer."""

    id: str
    """Unique for each data row; two rows with the same text keep different ids."""
    question: str
    """What is asked, before any prompt template."""
    answer: str
    """The reference answer, as the rewards compare it."""
    source: str = ""
    """Name of the problem set that the row came from."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What a source's own scorer needs beside the answer."""


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How completions are drawn. The defaults draw from the policy itself.

    Args:
        temperature: softmax temperature; log-probs and entropies are taken at it.
        top_p: nucleus mass; 1 is off.
        top_k: number of most likely tokens kept; 0 is off.
        min_p: least probability kept, relative to the likeliest token; 0 is off.
        max_tokens: longest response, in tokens, the end token included.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleRequest:
    """A prompt, and one random stream for each completion that is wanted."""

    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]
    """63-bit seeds, one a completion, from `gtpo_lit.sampling.streams.stream_seed`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """One sampled response, exactly as the engine produced it."""

    token_ids: tuple[int, ...]
    """Response tokens; the end token is the last one if `finish_reason` is "stop"."""
    text: str
    """The tokens decoded without special tokens."""
    finish_reason: FinishReason
    """"stop" if an end token was drawn, "length" if the token limit cut the response."""
    logprobs: tuple[float, ...] | None = None
    """Log-prob of each token at the sampling temperature, in nats."""
    entropies: tuple[float, ...] | None = None
    """Full-vocabulary entropy at each token at the sampling temperature, in nats, if asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Graded:
    """The completions of one problem with their scores, in sample order."""

    problem: Problem
    completions: tuple[Completion, ...]
    reward: tuple[float, ...]
    """Weighted sum of all reward terms."""
    correct: tuple[bool, ...]
    """Membership of O+, from the accuracy term alone."""
    components: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The unweighted score of every reward term by name."""
    incidents: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)
    """What went wrong in scoring which completion, by "<term>/<kind>" such as "math/timeouts"."""
    answers: tuple[str | None, ...] | None = None
    """The answer that the accuracy term found in each completion, None where it found none; None
    for all if that term looks for no answer."""
    prompt_ids: tuple[int, ...] = ()
    """The prompt that was sampled from, as tokens."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollouts:
    """Scored sequences as tensors: a whole RL step, or one micro-batch of it.

    All tensors lie on one device. Rows may come in any order; `group` says what belongs together.
    """

    input_ids: Tensor
    """[B, L] int64: prompt (left-padded), then response (right-padded)."""
    attention_mask: Tensor
    """[B, L] bool: true on every real token, holes of `mask` included."""
    mask: Tensor
    """[B, T] bool: tokens written by the policy; what counts in shares and statistics."""
    loss_mask: Tensor
    """[B, T] bool: tokens that get gradient; a subset of `mask`."""
    group: Tensor
    """[B] int64: unique for each draw of a data row."""
    reward: Tensor
    """[B] float32: total reward, before any length penalty."""
    correct: Tensor
    """[B] bool: membership of O+."""
    truncated: Tensor
    """[B] bool: cut by the token limit."""
    temperature: float
    """Sampling temperature, at which all log-probs and entropies below are taken."""
    logp_old: Tensor
    """[B, T] float32: log-probs under the policy that sampled, 0 where masked."""
    entropy: Tensor
    """[B, T] float32: full-vocabulary entropy of that policy in nats, 0 where masked; NaN on every
    token of a run that leaves entropies out."""
    penalty: Tensor | None = None
    """[B] float32: length penalties, never positive; added to the reward after shaping."""
    logp_ref: Tensor | None = None
    """[B, T] float32: log-probs under the reference policy."""
    logp_sampler: Tensor | None = None
    """[B, T] float32: log-probs that the sampling engine reported; NaN where it told none."""
    correction: Tensor | None = None
    """[B, T] float32: weights of the token losses that make up for the engine's log-probs."""
    advantages: Tensor | None = None
    """[B] or [B, T] float32: credit, computed on whole groups before any split."""
    denominator: Tensor | None = None
    """[] float32: what the loss of this micro-batch is divided by (its whole mini-batch's)."""

    @property
    def response_ids(self) -> Tensor:
        """[B, T] int64: the response part of `input_ids`."""
        return self.input_ids[:, -self.mask.shape[1] :]

    @property
    def length(self) -> Tensor:
        """[B] int64: number of response tokens written by the policy."""
        return self.mask.sum(dim=1)

    def replace(self, **changes: Any) -> Rollouts:
        """The same rollouts with some fields exchanged."""
        return dataclasses.replace(self, **changes)

    def rows(self, index: Tensor | Sequence[int]) -> Rollouts:
        """The rows named by `index` ([N] int64), in that order; scalars are kept as they are."""
        index = torch.as_tensor(index, dtype=torch.long, device=self.input_ids.device)
        return self._map(lambda value: value if value.ndim == 0 else value[index])

    def to(self, device: torch.device | str, **kwargs: Any) -> Rollouts:
        """The same rollouts on `device`; Lightning calls this to move a batch."""
        return self._map(lambda value: value.to(device, **kwargs))

    def _map(self, function: Any) -> Rollouts:
        tensors = {
            item.name: function(value)
            for item in dataclasses.fields(self)
            if isinstance(value := getattr(self, item.name), Tensor)
        }
        return dataclasses.replace(self, **tensors)


@dataclass(frozen=True, kw_only=True, slots=True)
class LossOutput:
    """What an algorithm returns for one micro-batch."""

    loss: Tensor
    """[] differentiable: this micro-batch's part of its mini-batch's loss."""
    metrics: Mapping[str, Tensor]
    """0-dim tensors without gradient. Names that end in `max` or `min` reduce that way over
    micro-batches and ranks; all others are means over loss tokens and reduce weighted by them."""

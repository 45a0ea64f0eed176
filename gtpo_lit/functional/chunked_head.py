"""A language model's head in chunks of rows, so that the logits of one chunk at a time exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

# Logits [N, V], targets [N] and the temperature to log-probs [N], and entropies [N] if it likes.
Score = Callable[[Tensor, Tensor, float], Tensor | tuple[Tensor, Tensor]]


def as_tuple(value: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, ...]:
    """What a `Score` returns, as a tuple of one or two tensors."""
    return value if isinstance(value, tuple) else (value,)


class ChunkedHead(torch.autograd.Function):
    """Rows in chunks: d logp_y / dx_j = [j = y] - p_j and d H / dx_j = -p_j (log p_j + H)."""

    @staticmethod
    def forward(
        ctx: Any,
        score: Score,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        chunk_size: int,
    ) -> tuple[Tensor, ...]:
        """Score the logits of `hidden` [N, H] against `targets` [N]; a tuple of [N] tensors."""
        pairs = zip(hidden.split(chunk_size), targets.split(chunk_size), strict=True)
        parts = [
            as_tuple(score(torch.nn.functional.linear(rows, weight, bias), chosen, temperature))
            for rows, chosen in pairs
        ]
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.temperature, ctx.chunk_size = temperature, chunk_size
        # A result that nothing depends on gets no gradient, rather than zeros to work through.
        ctx.set_materialize_grads(False)
        return tuple(torch.cat(column) for column in zip(*parts, strict=True))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Gradients from those of the log-probs and, if they were asked for, of the entropies."""
        hidden, weight, bias, targets = ctx.saved_tensors
        d_hidden = torch.zeros_like(hidden)
        # A frozen head's gradient would be as large as the head, for nothing.
        d_weight = torch.zeros_like(weight) if ctx.needs_input_grad[2] else None
        d_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(hidden), ctx.chunk_size):
            part = slice(start, start + ctx.chunk_size)
            logits = torch.nn.functional.linear(hidden[part], weight, bias)
            d_logits = _logit_gradient(
                logits if ctx.temperature == 1 else logits / ctx.temperature,
                targets[part],
                *(None if grad is None else grad[part] for grad in gradients),
            )
            if ctx.temperature != 1:
                d_logits.div_(ctx.temperature)
            d_hidden[part] = d_logits @ weight
            if d_weight is not None:
                d_weight += d_logits.T @ hidden[part]
            if d_bias is not None:
                d_bias += d_logits.sum(dim=0)
        return None, d_hidden, d_weight, d_bias, None, None, None


def _logit_gradient(
    scaled: Tensor, targets: Tensor, d_logp: Tensor | None, d_entropy: Tensor | None = None
) -> Tensor:
    log_probs = scaled.log_softmax(dim=-1)
    probs = log_probs.exp()
    gradient = torch.zeros_like(probs)
    if d_logp is not None:
        gradient -= probs * d_logp[:, None]
        gradient.scatter_add_(1, targets[:, None], d_logp[:, None].to(gradient.dtype))
    if d_entropy is not None:
        finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
        entropy = -(probs * finite).sum(dim=-1, keepdim=True)
        gradient -= probs * (finite + entropy) * d_entropy[:, None]
    return gradient

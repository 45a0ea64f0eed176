"""Log-probs and full-vocabulary entropies from logits, or from hidden states in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def logits_logprob_entropy(
    logits: Tensor, targets: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-prob of each target and entropy of each row, both of softmax(logits / temperature).

    Logits of minus infinity have probability 0 and add neither to the entropy nor, as NaN, to its
    gradient.

    Args:
        logits: [..., V], any floating type; computed in float32 or better.
        targets: [...] int64.
        temperature: positive.

    Returns:
        Two [...] tensors in nats, float32 or better.

    Raises:
        ValueError: for a temperature that is not positive.

    Example:
        >>> logp, entropy = logits_logprob_entropy(
        ...     torch.tensor([2.0, 1.0, 0.0]), torch.tensor(0), temperature=0.6)
        >>> round(logp.item(), 6)
        -0.202573
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    precise = logits if logits.dtype == torch.float64 else logits.float()
    log_probs = (precise / temperature).log_softmax(dim=-1)
    chosen = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    # Zeroing before the product keeps 0 * inf out of the gradient as well as the value.
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    return chosen, -(log_probs.exp() * finite).sum(dim=-1)


def linear_logprob_entropy(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    chunk_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """`logits_logprob_entropy` of the logits ``hidden @ weight.T + bias``, in chunks of rows.

    The logits of one chunk at a time exist, in the forward and again in the backward; both results
    carry gradient to `hidden`, `weight` and `bias`.

    Args:
        hidden: [..., H].
        weight: [V, H].
        targets: [...] int64.
        bias: [V], or none.
        temperature: positive.
        chunk_size: rows whose logits exist at a time; all if not given.

    Returns:
        Two [...] tensors in nats, float32 or better.

    Raises:
        ValueError: for a temperature or chunk size that is not positive.
    """
    if temperature <= 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    # The head runs in float32 at least: rounding of its logits would be the largest error.
    wide = torch.promote_types(weight.dtype, torch.float32)
    hidden, weight = hidden.to(wide), weight.to(wide)
    bias = None if bias is None else bias.to(wide)
    if chunk_size is None:
        logits = torch.nn.functional.linear(hidden, weight, bias)
        return logits_logprob_entropy(logits, targets, temperature=temperature)
    rows = hidden.reshape(-1, hidden.shape[-1])
    apply: Any = _Chunked.apply
    logp, entropy = apply(rows, weight, bias, targets.reshape(-1), temperature, chunk_size)
    return logp.view(targets.shape), entropy.view(targets.shape)


class _Chunked(torch.autograd.Function):
    """Rows in chunks: d logp_y / dx_j = [j = y] - p_j and d H / dx_j = -p_j (log p_j + H)."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        temperature: float,
        chunk_size: int,
    ) -> tuple[Tensor, Tensor]:
        parts = [
            logits_logprob_entropy(
                torch.nn.functional.linear(rows, weight, bias), chosen, temperature=temperature
            )
            for rows, chosen in zip(
                hidden.split(chunk_size), targets.split(chunk_size), strict=True
            )
        ]
        ctx.save_for_backward(hidden, weight, bias, targets)
        ctx.temperature, ctx.chunk_size = temperature, chunk_size
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets = ctx.saved_tensors
        d_hidden, d_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        d_bias = None if bias is None else torch.zeros_like(bias)
        for start in range(0, len(hidden), ctx.chunk_size):
            part = slice(start, start + ctx.chunk_size)
            logits = torch.nn.functional.linear(hidden[part], weight, bias)
            d_logits = _logit_gradient(
                logits / ctx.temperature,
                targets[part],
                *(None if grad is None else grad[part] for grad in gradients),
            ).div_(ctx.temperature)
            d_hidden[part] = d_logits @ weight
            d_weight += d_logits.T @ hidden[part]
            if d_bias is not None:
                d_bias += d_logits.sum(dim=0)
        return d_hidden, d_weight, d_bias, None, None, None


def _logit_gradient(
    scaled: Tensor, targets: Tensor, d_logp: Tensor | None, d_entropy: Tensor | None
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

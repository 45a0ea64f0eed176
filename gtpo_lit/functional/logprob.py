"""Log-probs and full-vocabulary entropies from logits, or from hidden states in chunks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gtpo_lit.functional.chunked_head import ChunkedHead, Score, as_tuple


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
    log_probs = _log_probs(logits, temperature)
    # Zeroing before the product keeps 0 * inf out of the gradient as well as the value.
    finite = log_probs.masked_fill(log_probs == -torch.inf, 0.0)
    return _chosen(log_probs, targets), -(log_probs.exp() * finite).sum(dim=-1)


def logits_logprob(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """The log-probs of `logits_logprob_entropy`, bit for bit, without the cost of the entropies.

    Args:
        logits: [..., V], any floating type; computed in float32 or better.
        targets: [...] int64.
        temperature: positive.

    Returns:
        [...] in nats, float32 or better.

    Raises:
        ValueError: for a temperature that is not positive.

    Example:
        >>> logits_logprob(torch.zeros(4), torch.tensor(0)).item() == -torch.tensor(4.0).log()
        tensor(True)
    """
    return _chosen(_log_probs(logits, temperature), targets)


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
    logp, entropy = _linear(
        logits_logprob_entropy, hidden, weight, targets, bias, temperature, chunk_size
    )
    return logp, entropy


def linear_logprob(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    chunk_size: int | None = None,
) -> Tensor:
    """The log-probs of `linear_logprob_entropy`, bit for bit, without the cost of the entropies.

    Args:
        hidden: [..., H].
        weight: [V, H].
        targets: [...] int64.
        bias: [V], or none.
        temperature: positive.
        chunk_size: rows whose logits exist at a time; all if not given.

    Returns:
        [...] in nats, float32 or better, with gradient to `hidden`, `weight` and `bias`.

    Raises:
        ValueError: for a temperature or chunk size that is not positive.
    """
    return _linear(logits_logprob, hidden, weight, targets, bias, temperature, chunk_size)[0]


def _log_probs(logits: Tensor, temperature: float) -> Tensor:
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    precise = logits if logits.dtype == torch.float64 else logits.float()
    # Dividing by 1 changes no bit and would cost a copy of all logits.
    return (precise if temperature == 1 else precise / temperature).log_softmax(dim=-1)


def _chosen(log_probs: Tensor, targets: Tensor) -> Tensor:
    return log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _linear(
    score: Score,
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    temperature: float,
    chunk_size: int | None,
) -> tuple[Tensor, ...]:
    """What `score` makes of the head's logits, as a tuple of [...] tensors."""
    if not temperature > 0:
        raise ValueError(f"temperature must be positive, got {temperature}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}")
    # The head runs in float32 at least: rounding of its logits would be the largest error.
    wide = torch.promote_types(weight.dtype, torch.float32)
    hidden, weight = hidden.to(wide), weight.to(wide)
    bias = None if bias is None else bias.to(wide)
    if chunk_size is None:
        return as_tuple(
            score(torch.nn.functional.linear(hidden, weight, bias), targets, temperature)
        )
    rows = hidden.reshape(-1, hidden.shape[-1])
    apply: Any = ChunkedHead.apply
    values = apply(score, rows, weight, bias, targets.reshape(-1), temperature, chunk_size)
    return tuple(value.view(targets.shape) for value in values)

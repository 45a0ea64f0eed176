"""Length penalties: DAPO's soft punishment and the paper's group-relative one."""

from __future__ import annotations

import torch
from torch import Tensor

# Solve rates are quotients of small integers; 1 of 5 must count as 0.2 = 1 - 0.8.
RATE_TOLERANCE = 1e-6


def soft_penalty(length: Tensor, *, max_length: int, buffer: int, factor: float = 1.0) -> Tensor:
    """Soft overlong punishment (DAPO, arXiv 2503.14476, Eq. 13).

    0 up to max_length - buffer tokens, then falling evenly to -factor at max_length.

    Args:
        length: [B] tokens.
        max_length: longest response.
        buffer: length of the slope, in tokens, in [1, max_length].
        factor: depth of the penalty.

    Returns:
        [B] float, never positive.

    Raises:
        ValueError: for a buffer outside [1, max_length] or a negative factor.
    """
    if not 1 <= buffer <= max_length:
        raise ValueError(f"buffer must be in [1, max_length = {max_length}], got {buffer}")
    if factor < 0:
        raise ValueError(f"factor must be at least 0, got {factor}")
    over = (length.double() - (max_length - buffer)) / buffer
    return (-factor * over.clamp(0, 1)).to(torch.get_default_dtype())


def group_relative_penalty(
    length: Tensor, correct: Tensor, group: Tensor, *, gamma: float
) -> Tensor:
    """Group-relative overlong penalty, GROP (arXiv 2508.04349, Appendix D).

    By solve rate, a group is easy (>= gamma), hard (<= 1 - gamma; no penalty) or medium. Easy: the
    knee L is max((min + max) / 2, mean) of the correct lengths and correct answers pay. Medium: L
    over all lengths; correct answers pay if they are the majority, else the wrong ones do. Who pays
    gets 0 up to L, -(length - L) / (2 L) up to 2 L, and -1/2 beyond.

    Args:
        length: [B] tokens.
        correct: [B] bool.
        group: [B] int64, in any order.
        gamma: in (0.5, 1].

    Returns:
        [B] float in [-1/2, 0].

    Raises:
        ValueError: for gamma outside (0.5, 1].
    """
    if not 0.5 < gamma <= 1:
        raise ValueError(f"gamma must be in (0.5, 1], got {gamma}")
    penalty = torch.zeros(length.shape, dtype=torch.float64, device=length.device)
    for name in torch.unique(group):
        members = group == name
        rate = correct[members].double().mean()
        if rate <= 1 - gamma + RATE_TOLERANCE:
            continue
        easy = rate >= gamma - RATE_TOLERANCE
        payers = members & (correct if easy or rate > 0.5 else ~correct)
        counted = length[payers if easy else members].double()
        knee = torch.maximum((counted.min() + counted.max()) / 2, counted.mean())
        excess = (length.double() - knee).clamp(min=0) / (2 * knee.clamp(min=1))
        penalty = torch.where(payers, -excess.clamp(max=0.5), penalty)
    return penalty.to(torch.get_default_dtype())

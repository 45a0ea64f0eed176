"""Rewards as advantages: normalised over tokens or sequences, of a group or of the batch."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from gtpo_lit.functional.masked import group_index, segment_moments

Normalisation = Literal["joint", "separate", "anchored"]
Scope = Literal["group", "batch"]
Scale = Literal["group", "batch", "none"]


def mixed_groups(correct: Tensor, group: Tensor, counted: Tensor | None = None) -> Tensor:
    """[B] bool: rows of groups that hold both a correct and a wrong (counted) sequence."""
    dense, count = group_index(group)
    size, mean, _ = segment_moments(correct, dense, count, keep=counted)
    return ((mean > 0) & (mean < 1) & (size > 1))[dense]


def normalize_tokens(
    rewards: Tensor,
    mask: Tensor,
    correct: Tensor,
    group: Tensor,
    *,
    mode: Normalisation = "joint",
    scope: Scope = "group",
    gate: bool = True,
    eps: float = 1e-6,
    mass: float | None = None,
) -> Tensor:
    """Token advantages from shaped token rewards (arXiv 2508.04349, Eq. 6 and its readings).

    Args:
        rewards: [B, T] shaped rewards, penalties included.
        mask: [B, T] bool, the tokens that count.
        correct: [B] bool, membership of O+.
        group: [B] int64, in any order.
        mode: "joint" = z-score over all tokens of the scope; "separate" = over the tokens of O+
            and of O- apart; "anchored" = (r / mass - mean z) / (std z), z = +-1 outcomes over the
            scope's sequences.
        scope: statistics over each group, or over everything passed in (gather ranks first).
        gate: groups whose outcomes are all alike get 0 and stay out of batch statistics.
        eps: added to the standard deviation (ddof 1).
        mass: alpha1 + alpha2; needed by "anchored".

    Returns:
        [B, T] in the dtype of `rewards`, 0 where masked. A set of fewer than two values, or, under
        "anchored", of equal outcomes gives 0. Moments are computed in float64.

    Raises:
        ValueError: for an unknown mode or scope, or "anchored" without a positive `mass`.
    """
    if mode not in get_args(Normalisation):
        raise ValueError(f"mode must be one of {get_args(Normalisation)}, got {mode!r}")
    if scope not in get_args(Scope):
        raise ValueError(f"scope must be one of {get_args(Scope)}, got {scope!r}")
    seen = mask & mixed_groups(correct, group, mask.any(dim=1))[:, None] if gate else mask
    index, count = (torch.zeros_like(group), 1) if scope == "batch" else group_index(group)
    if mode == "anchored":
        if mass is None or mass <= 0:
            raise ValueError(f"mode 'anchored' needs mass = alpha1 + alpha2 > 0, got {mass}")
        outcome = torch.where(correct, 1.0, -1.0).double()
        _, mean, std = segment_moments(outcome, index, count, keep=seen.any(dim=1))
        centred = rewards.double() / mass - mean[index][:, None]
        scaled = torch.where(std[index][:, None] > 0, centred / (std[index][:, None] + eps), 0.0)
        return torch.where(seen, scaled, 0.0).to(rewards.dtype)
    if mode == "separate":
        index, count = 2 * index + correct.long(), 2 * count
    by_token = index[:, None].expand_as(rewards).flatten()
    size, mean, std = segment_moments(rewards.flatten(), by_token, count, keep=seen.flatten())
    centred = rewards.double() - mean[index][:, None]
    scaled = torch.where(size[index][:, None] > 1, centred / (std[index][:, None] + eps), 0.0)
    return torch.where(seen, scaled, 0.0).to(rewards.dtype)


def normalize_sequences(
    rewards: Tensor,
    group: Tensor,
    *,
    scale: Scale = "group",
    correct: Tensor | None = None,
    gate: bool = True,
    eps: float = 1e-6,
    alive: Tensor | None = None,
) -> Tensor:
    """Sequence advantages: (r - mean of the group) / (std + eps) (GRPO, arXiv 2402.03300).

    Args:
        rewards: [B].
        group: [B] int64, in any order; groups may differ in size.
        scale: std of the group, of the batch (as in TRL), or none (Dr.GRPO, arXiv 2503.20783).
        correct: [B] bool; read by the gate.
        gate: where `correct` is given, groups whose outcomes are all alike get 0 and stay out of
            the batch's std.
        eps: added to the standard deviation (ddof 1).
        alive: [B] bool, rows that count; a row without a token gets 0 and enters no statistic.

    Returns:
        [B] in the dtype of `rewards`. A group of one, and one of equal rewards, gives 0.

    Raises:
        ValueError: for an unknown scale.
    """
    if scale not in get_args(Scale):
        raise ValueError(f"scale must be one of {get_args(Scale)}, got {scale!r}")
    index, count = group_index(group)
    seen = torch.ones_like(group, dtype=torch.bool) if alive is None else alive
    if gate and correct is not None:
        seen = seen & mixed_groups(correct, group, alive)
    size, mean, std = segment_moments(rewards, index, count, keep=seen)
    centred = torch.where(size[index] > 1, rewards.double() - mean[index], 0.0)
    if scale == "group":
        centred = centred / (std[index] + eps)
    elif scale == "batch":
        whole = torch.zeros_like(group)
        _, _, spread = segment_moments(rewards, whole, 1, keep=seen)
        centred = centred / (spread + eps)
    return torch.where(seen, centred, 0.0).to(rewards.dtype)

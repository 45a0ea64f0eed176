"""Norm and clipping of gradients that may be split over different groups of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gtpo_lit.whole import is_piece


def gradient_norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    """The 2-norm of all gradients together, the same number on every rank.

    A collective where gradients are sharded. Parameters that lie on different meshes (the blocks
    under tensor parallelism, and the rest) cannot enter one operation, so each mesh has its norm.

    Returns:
        [] float32 or better; 0 without any gradient.
    """
    pieces = [parameter for parameter in parameters if is_piece(parameter)]
    others = [p.grad for p in parameters if p.grad is not None and not is_piece(p)]
    norms = [_norm_of_pieces(pieces)] if pieces else []
    for gradients in _by_mesh(others):
        norm: Any = torch.nn.utils.get_total_norm(gradients, foreach=_foreach(gradients))
        norms.append(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    if len(norms) == 1:
        return norms[0]
    return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())


@torch.no_grad()
def clip_gradients(parameters: Sequence[nn.Parameter], max_norm: float) -> None:
    """Scale all gradients down, in place, so that their norm is `max_norm` at most.

    As `torch.nn.utils.clip_grad_norm_`, for gradients on any meshes; a collective where gradients
    are sharded.
    """
    scale = (max_norm / (gradient_norm(parameters) + 1e-6)).clamp(max=1.0).item()
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(scale)


def _norm_of_pieces(pieces: Sequence[nn.Parameter]) -> Tensor:
    """[] of gradients that FSDP1 splits over all ranks; a rank may have none of them."""
    gradients = [piece.grad for piece in pieces if piece.grad is not None]
    dtype = torch.promote_types(pieces[0].dtype, torch.float32)
    norm = torch.nn.utils.get_total_norm(gradients).to(pieces[0].device, dtype)
    total = norm.square()
    dist.all_reduce(total)
    return total.sqrt()


def _by_mesh(gradients: Sequence[Tensor]) -> list[list[Tensor]]:
    groups: dict[Any, list[Tensor]] = {}
    for gradient in gradients:
        groups.setdefault(getattr(gradient, "device_mesh", None), []).append(gradient)
    return list(groups.values())


def _foreach(gradients: Sequence[Tensor]) -> bool | None:
    # Sharded gradients of one mesh may still be placed differently, which one operation refuses.
    return False if hasattr(gradients[0], "placements") else None

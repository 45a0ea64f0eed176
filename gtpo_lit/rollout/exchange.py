"""Rollouts of all ranks on every rank, so that credit sees whole groups wherever they lie."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from gtpo_lit.rollout.collate import concatenate
from gtpo_lit.types import Rollouts


def all_gather(value: Any) -> list[Any]:
    """`value` of every rank, in rank order; a list of one where nothing is distributed."""
    if not (dist.is_available() and dist.is_initialized()):
        return [value]
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def gather_rollouts(rollouts: Rollouts | None) -> Rollouts:
    """The step's rollouts of all ranks, on the CPU, rows in rank order, the same on every rank.

    Args:
        rollouts: of this rank; None if it has none.

    Raises:
        RuntimeError: on every rank, if none has any.
    """
    parts = all_gather(None if rollouts is None else rollouts.to("cpu"))
    found = [part for part in parts if part is not None]
    if not found:
        raise RuntimeError("no prompt of the RL step was answered by the sampling engine")
    return concatenate(found)

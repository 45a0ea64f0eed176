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


def gather_rollouts(rollouts: Rollouts) -> Rollouts:
    """The step's rollouts of all ranks, on the CPU, rows in rank order, the same on every rank."""
    return concatenate(all_gather(rollouts.to("cpu")))

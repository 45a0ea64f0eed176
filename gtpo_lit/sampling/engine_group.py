"""Ranks that share one engine by tensor parallelism: each draws for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from gtpo_lit.types import SampleRequest


class EngineGroup:
    """Contiguous ranks with one shard of an engine each.

    All shards must be given the same requests in the same order, so the ranks' requests are put
    together, all ranks draw them all, and each keeps the answers to its own.
    """

    def __init__(self, size: int) -> None:
        """Make the groups of `size` ranks; on all ranks at once."""
        self.size = size
        self._group: Any = None
        if size > 1:
            self._group, _ = dist.new_subgroups(size)

    def gather(self, requests: Sequence[SampleRequest]) -> tuple[list[SampleRequest], slice]:
        """The requests of all ranks of the group, and where this rank's stand among them."""
        if self._group is None:
            return list(requests), slice(0, len(requests))
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, list(requests), group=self._group)
        rank = dist.get_rank(self._group)
        start = sum(len(part) for part in parts[:rank])
        return [request for part in parts for request in part], slice(start, start + len(requests))


def check_size(size: int) -> None:
    """Refuse a number of ranks to an engine that does not divide the ranks there are.

    Raises:
        ValueError: with both numbers.
    """
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    if ranks % size:
        raise ValueError(
            f"data.sampler.tensor_parallel = {size} does not divide the {ranks} rank(s) of the run"
        )

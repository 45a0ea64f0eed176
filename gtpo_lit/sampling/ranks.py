"""What one rank does for all of them: who am I, and what did rank 0 find out?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

Value = TypeVar("Value")


def distributed() -> bool:
    """Whether several ranks may be at work."""
    return dist.is_available() and dist.is_initialized()


def rank() -> int:
    """This process's place among all ranks; 0 where nothing is distributed."""
    return dist.get_rank() if distributed() else 0


def by_rank_zero(work: Callable[[], Value]) -> Value:
    """Let rank 0 do `work`; every rank returns its value, or raises its exception.

    A collective: all ranks call it, and none goes on before rank 0 is done.
    """
    if not distributed():
        return work()
    outcome: list[tuple[Value | None, Exception | None]] = [(None, None)]
    if rank() == 0:
        try:
            outcome = [(work(), None)]
        except Exception as error:
            # The others would wait for ever.
            outcome = [(None, error)]
    dist.broadcast_object_list(outcome, src=0)
    value, failure = outcome[0]
    if failure is not None:
        raise failure
    return value  # type: ignore[return-value]

"""The states of the global random streams of all ranks, as plain values and tensors.

Rollouts draw from streams of their own. What draws from the global ones, as dropout or a reward
of one's own may, goes on after a resume as it would have without.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities import rank_zero_warn


def rng_state() -> dict[str, Any]:
    """This process's streams: torch on CPU and current GPU, numpy, Python.

    All values are tensors, numbers, strings and tuples, which `torch.load(weights_only=True)`
    takes.
    """
    name, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    state: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "numpy": (
            str(name),
            torch.from_numpy(np.asarray(keys).astype(np.int64)),
            int(position),
            int(has_gauss),
            float(gauss),
        ),
        "python": random.getstate(),
    }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def restore_rng_state(state: Mapping[str, Any]) -> None:
    """Set this process's streams to what `rng_state` returned."""
    torch.set_rng_state(state["torch"].cpu())
    name, keys, position, has_gauss, gauss = state["numpy"]
    keys = keys.cpu().numpy().astype(np.uint32)
    np.random.set_state((name, keys, position, has_gauss, gauss))
    version, inner, gauss_next = state["python"]
    random.setstate((version, tuple(inner), gauss_next))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())


def restore_rank(states: Sequence[Mapping[str, Any]], *, rank: int, ranks: int) -> None:
    """Set this rank's streams, or warn that there is no such thing at another world size.

    Args:
        states: of every rank that wrote the checkpoint, in rank order.
        rank: of this process.
        ranks: number of ranks now.
    """
    if len(states) == ranks:
        restore_rng_state(states[rank])
        return
    rank_zero_warn(
        f"the checkpoint was written by {len(states)} rank(s), and {ranks} go on: the global "
        "random streams begin anew. Rollouts have their own, which do not depend on the number of "
        "ranks"
    )

"""A policy's weights as an engine takes them: whole tensors, one by one, by their names."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


def named_weights(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Every parameter and saved buffer of `model` as it is, sharded or not, in the model's order.

    Tied parameters come once, under their first name.
    """
    saved = model.state_dict()
    named = [*model.named_parameters(), *model.named_buffers()]
    return [(name, saved[name]) for name, _ in named if name in saved]


@torch.no_grad()
def whole_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What `named_weights` lists, unsharded.

    Only one sharded parameter is whole at a time. With a sharded model every rank must walk the
    whole iterator, since making a parameter whole is a collective. A tensor that is not sharded
    is the model's own memory, to be copied before the next optimiser step.
    """
    for name, value in named_weights(model):
        yield name, value.full_tensor() if hasattr(value, "full_tensor") else value

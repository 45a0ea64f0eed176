"""A policy's weights as an engine takes them: whole tensors, one by one, by their names."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn


@torch.no_grad()
def whole_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and saved buffer of `model`, unsharded, in the model's order.

    Only one sharded parameter is whole at a time. With a sharded model every rank must walk the
    whole iterator, since making a parameter whole is a collective. A tensor that is not sharded
    is the model's own memory, to be copied before the next optimiser step. Tied parameters come
    once, under their first name.
    """
    saved = model.state_dict()
    named = [*model.named_parameters(), *model.named_buffers()]
    for name, _ in named:
        if name in saved:
            value = saved[name]
            yield name, value.full_tensor() if hasattr(value, "full_tensor") else value

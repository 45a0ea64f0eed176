"""A policy's weights as an engine takes them: whole tensors, one by one, by their names."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from gtpo_lit.policy_adapters import adapted_layers, base_name, is_adapter, merged_weight
from gtpo_lit.whole import plain_name, whole


def named_weights(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Every parameter and saved buffer of `model` as it is, sharded or not, in the model's order.

    Tied parameters come once, under their first name. Where there are adapters, these are the
    base's, under the names they have without adapters. A collective where FSDP1 splits the model.
    """
    saved = model.state_dict()
    named = [*model.named_parameters(), *model.named_buffers()]
    return [
        (base_name(name), saved[name])
        for name in (plain_name(name) for name, _ in named)
        if name in saved and not is_adapter(name)
    ]


@torch.no_grad()
def whole_weights(
    model: nn.Module, named: list[tuple[str, Tensor]] | None = None
) -> Iterator[tuple[str, Tensor]]:
    """What `named_weights` lists, unsharded, with adapters merged into their layers' weights.

    Only one sharded parameter is whole, or one layer merged, at a time; the model itself stays as
    it is. With a sharded model every rank must walk the whole iterator, since making a parameter
    whole is a collective. A tensor that is neither sharded nor adapted is the model's own memory,
    to be copied before the next optimiser step.

    Args:
        model: whose weights.
        named: its `named_weights` where they are known; listing them can be a collective, too.
    """
    layers = adapted_layers(model)
    for name, value in named_weights(model) if named is None else named:
        full = whole(value)
        yield name, merged_weight(layers[name], full) if name in layers else full

"""Weights and optimiser states of a split module as one rank would save them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from gtpo_lit.whole import plain_name, whole


def full_weights(module: nn.Module, *, keep: bool) -> dict[str, Any]:
    """Everything that `module` saves, whole, on the CPU; nothing without `keep`. A collective."""
    return _gathered(get_model_state_dict(module), keep)


def full_optimizer_state(
    module: nn.Module, optimizer: torch.optim.Optimizer, *, keep: bool
) -> dict[str, Any]:
    """The state of `optimizer` by number, whole, on the CPU. A collective.

    Args:
        module: whose parameters it steps.
        optimizer: one that has been made.
        keep: whether this rank wants it; the others get an empty one.
    """
    state: Any = get_optimizer_state_dict(module, optimizer)
    states = {
        name: kept
        for name, values in state["state"].items()
        if (kept := _gathered(values, keep))  # all ranks gather, whether they keep or not
    }
    return numbered({"state": states, "param_groups": state["param_groups"]}) if keep else {}


def load_full_weights(module: nn.Module, weights: Mapping[str, Tensor], *, strict: bool) -> None:
    """Give `module` its pieces of whole weights. A collective.

    Raises:
        ValueError: a weight has another shape, naming it.
        RuntimeError: names differ, where `strict`.
    """
    parts: Mapping[str, Any] = get_model_state_dict(module)
    found: dict[str, Tensor] = {}
    for name, value in weights.items():
        part = parts.get(name)
        if part is not None and part.shape != value.shape:
            raise ValueError(
                f"the checkpoint is of another policy: {name} has shape {tuple(value.shape)} "
                f"there and {tuple(part.shape)} here"
            )
        found[name] = _split_like(part, value) if isinstance(part, DTensor) else value
    module.load_state_dict(found, strict=strict)


def load_full_optimizer_state(
    module: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
) -> None:
    """Give `optimizer` its pieces of what `full_optimizer_state` returned. A collective.

    Raises:
        ValueError: it counts another number of parameters.
    """
    names = {parameter: plain_name(name) for name, parameter in module.named_parameters()}
    ordered = [names[one] for group in optimizer.param_groups for one in group["params"]]
    saved = sum(len(group["params"]) for group in state["param_groups"])
    if saved != len(ordered):
        raise ValueError(
            f"the checkpoint's optimiser steps {saved} parameters, this run's {len(ordered)}"
        )
    named: Any = {
        "state": {ordered[number]: values for number, values in state["state"].items()},
        "param_groups": [
            {**group, "params": [ordered[number] for number in group["params"]]}
            for group in state["param_groups"]
        ],
    }
    options = StateDictOptions(full_state_dict=True)
    set_optimizer_state_dict(module, optimizer, named, options=options)


def numbered(state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimiser's state by number, as torch's optimisers take it, from one by name.

    >>> numbered({"state": {"b": {"step": 2}}, "param_groups": [{"lr": 1.0, "params": ["a", "b"]}]})
    {'state': {1: {'step': 2}}, 'param_groups': [{'lr': 1.0, 'params': [0, 1]}]}
    """
    number: dict[Any, int] = {}
    groups = []
    for group in state["param_groups"]:
        places = [number.setdefault(name, len(number)) for name in group["params"]]
        groups.append({**group, "params": places})
    states = {number[name]: value for name, value in state.get("state", {}).items()}
    return {"state": states, "param_groups": groups}


def _gathered(values: Mapping[str, Any], keep: bool) -> dict[str, Any]:
    """Tensors made whole one after the other; on a device no more than one is whole at a time."""
    kept = {}
    for name, value in values.items():
        full = whole(value).cpu() if isinstance(value, Tensor) else value
        if keep:
            # A tensor that was not split may be the module's own memory.
            kept[name] = full.clone() if full is value else full
    return kept


def _split_like(part: DTensor, value: Tensor) -> DTensor:
    value = value.to(part.device, part.dtype)
    # Every rank has the same values already.
    return distribute_tensor(value, part.device_mesh, part.placements, src_data_rank=None)

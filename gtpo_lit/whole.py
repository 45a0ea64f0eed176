"""Tensors that are split over ranks: told apart from whole ones, named, and put together."""

from __future__ import annotations

from torch import Tensor, nn

_WRAPPER = "_fsdp_wrapped_module."
"""What FSDP1 puts into the names of the modules that it wraps."""


def whole(value: Tensor) -> Tensor:
    """All of `value` on every rank; the tensor itself where it is not split.

    A collective for one that is split: all ranks must call it, in the same order.
    """
    full = getattr(value, "full_tensor", None)
    return value if full is None else full()


def is_piece(parameter: Tensor) -> bool:
    """Whether FSDP1 keeps a piece in its place: one dimension, maybe of no length at all."""
    return bool(getattr(parameter, "_fsdp_flattened", False))


def is_sharded(module: nn.Module) -> bool:
    """Whether some parameter is split over ranks."""
    return any(hasattr(one, "full_tensor") or is_piece(one) for one in module.parameters())


def plain_name(name: str) -> str:
    """A parameter's name in the model as it is without wrappers.

    >>> plain_name("model.layers.0._fsdp_wrapped_module.mlp.weight")
    'model.layers.0.mlp.weight'
    """
    return name.replace(_WRAPPER, "")


def named_parts(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Every parameter of `model` by its plain name, in the model's order, as `whole` takes it.

    Each has the shape of the whole tensor, split or not; tied parameters come once, under their
    first name. A collective where FSDP1 splits the model.
    """
    named: list[tuple[str, Tensor]] = [
        (plain_name(name), one) for name, one in model.named_parameters()
    ]
    if not any(is_piece(one) for _, one in named):
        # A `state_dict` may leave parameters out: a policy's, the base of its adapters.
        return named
    saved = model.state_dict()
    return [(name, saved[name]) for name, _ in named]

"""Adapters on a policy's layers: put on, switched off, merged, and saved without the base.

An adapted layer holds the layer it adapts as `base_layer`, which puts that word into the names of
its weights; everything outside of this process knows them by their names without it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gtpo_lit.policy_lora import LoRA
from gtpo_lit.whole import whole

ADAPTER = "default"
"""The name that peft has for the only adapter."""


def adapt(policy: nn.Module, lora: LoRA) -> None:
    """Put adapters on the layers of `policy.model`, and freeze all else.

    Adapters are in float32 whatever the base is in, since their steps are small. From then on the
    policy's `state_dict` holds adapters alone, and loading one leaves the base as it is. Global
    random streams stay untouched; a model without memory ("meta") will do.

    Raises:
        ValueError: what `LoRA.targets` raises.
    """
    model: Any = policy.model
    targets = lora.targets(model)
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,  # type: ignore[arg-type]  # a float does, too
        target_modules=targets,
        bias="none",
        init_lora_weights=False,
    )
    # New layers draw weights before they get those that are meant.
    with torch.random.fork_rng(devices=[]):
        inject_adapter_in_model(config, model, ADAPTER)
    layers = adapted_layers(model)
    assert list(layers) == [f"{name}.weight" for name in targets], "peft adapts other layers"
    seed = torch.initial_seed() if lora.seed is None else lora.seed
    for name, layer in layers.items():
        layer.lora_dropout[ADAPTER] = GradientDropout(lora.dropout)
        _start(layer, name, seed)
    policy.register_state_dict_post_hook(_leave_base_out)
    policy.register_load_state_dict_pre_hook(_fill_base_in)


class GradientDropout(nn.Dropout):
    """Dropout in passes with gradient alone: what samples and scores is one and the same policy."""

    def forward(self, values: Tensor) -> Tensor:
        """Drop a share of `values`, of any shape, if a gradient is to come."""
        return super().forward(values) if torch.is_grad_enabled() else values


@torch.no_grad()
def _start(layer: Any, name: str, seed: int) -> None:
    """A uniform in +-1 / sqrt(inputs) as in a linear layer, and B = 0, both in float32.

    A is a function of seed and name alone: it is the same on every rank, device and model part.
    """
    down, up = layer.lora_A[ADAPTER].float(), layer.lora_B[ADAPTER].float()
    digest = hashlib.sha256(f"lora {seed} {name}".encode()).digest()
    stream = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    bound = 1 / math.sqrt(down.in_features)
    shape = down.weight.shape
    down.weight.copy_(torch.empty(shape).uniform_(-bound, bound, generator=stream))
    up.weight.zero_()


def is_adapter(name: str) -> bool:
    """Whether a weight of this name belongs to an adapter."""
    return ".lora_A." in name or ".lora_B." in name


def base_name(name: str) -> str:
    """A base weight's name in the model without adapters.

    >>> base_name("layers.0.q_proj.base_layer.weight")
    'layers.0.q_proj.weight'
    """
    return name.replace(".base_layer.", ".")


def adapted_layers(model: nn.Module) -> dict[str, Any]:
    """Every layer that has an adapter, by the base name of its weight; none without LoRA."""
    return {
        f"{name}.weight": module
        for name, module in model.named_modules()
        if hasattr(module, "lora_A") and hasattr(module, "base_layer")
    }


@torch.no_grad()
def merged_weight(layer: Any, weight: Tensor) -> Tensor:
    """W + alpha / rank * B A of an adapted layer, computed in float32, in the dtype of W.

    Args:
        layer: one of `adapted_layers`; it stays as it is. If its adapter is sharded, all ranks
            must call this.
        weight: its base weight W [out, in], whole.
    """
    down, up = (
        whole(part[ADAPTER].weight).to(weight.device).float()
        for part in (layer.lora_A, layer.lora_B)
    )
    with torch.autocast(weight.device.type, enabled=False):
        merged = torch.addmm(weight.float(), up, down, alpha=layer.scaling[ADAPTER])
    return merged.to(weight.dtype)


@torch.no_grad()
def merged_state(model: nn.Module, *, keep: bool = True) -> dict[str, Tensor]:
    """All that is saved of `model`, merged, under the names it has without adapters, on the CPU.

    Where it is sharded all ranks must call this; those without `keep` get nothing.
    """
    layers = adapted_layers(model)
    merged = {}
    for full_name, value in model.state_dict().items():
        if not is_adapter(full_name):
            name, value = base_name(full_name), whole(value)
            value = merged_weight(layers[name], value) if name in layers else value
            if keep:
                merged[name] = value.cpu()
    return merged


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Let `model` compute as its base; the adapters are on again afterwards, whatever happens."""
    layers = [*adapted_layers(model).values()]
    before = [layer._disable_adapters for layer in layers]
    try:
        for layer in layers:
            # peft's own switch freezes the adapters as well, and would have to thaw them.
            layer._disable_adapters = True
        yield
    finally:
        for layer, off in zip(layers, before, strict=True):
            layer._disable_adapters = off


def _leave_base_out(_policy: nn.Module, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    for name in [name for name in state if name.startswith(prefix) and not is_adapter(name)]:
        del state[name]


def _fill_base_in(policy: nn.Module, state: dict[str, Any], prefix: str, *_others: Any) -> None:
    """Give a state that holds adapters alone the base that is there, so that nothing is missing."""
    model: Any = policy.model
    for name, value in model.state_dict(prefix=f"{prefix}model.").items():
        if not is_adapter(name):
            state[name] = value

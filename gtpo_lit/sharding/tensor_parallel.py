"""Tensor parallelism: the linear layers of a block split over ranks that see the same tokens."""

from __future__ import annotations

import re
from typing import Any

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)
from transformers import PretrainedConfig

STYLES: dict[str, type[ParallelStyle]] = {"colwise": ColwiseParallel, "rowwise": RowwiseParallel}


def check_tensor_parallel(config: PretrainedConfig, size: int) -> None:
    """Refuse a model that does not split over `size` ranks.

    Args:
        config: of the model; its `base_model_tp_plan` says which layers split, and how.
        size: ranks that share each block.

    Raises:
        ValueError: the model names no plan, one with other styles than `colwise` and `rowwise`,
            or a number of heads or hidden units that `size` does not divide.
    """
    if size == 1:
        return
    option = f"tensor_parallel_size = {size}"
    text = config.get_text_config()
    plan = block_plan(config)
    others = sorted({style for style in plan.values() if style not in STYLES})
    if not plan or others:
        found = f"a plan with {others}" if others else "no plan"
        raise ValueError(
            f"{option}: transformers has {found} for models of type {text.model_type!r}; "
            f"only {sorted(STYLES)} are supported; set it to 1"
        )
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        count = getattr(text, name, None)
        if count is not None and count % size:
            raise ValueError(f"{option} does not divide the model's {name} = {count}")


def block_plan(config: PretrainedConfig) -> dict[str, str]:
    """How transformers would split the layers of every block, by their names; `*` counts blocks."""
    plan: dict[str, str] = config.get_text_config().base_model_tp_plan or {}
    return {name: style for name, style in plan.items() if "*" in name}


def split_blocks(model: nn.Module, config: PretrainedConfig, mesh: DeviceMesh) -> None:
    """Split the linear layers of every block over the ranks of `mesh`, in place.

    Embedding, norms and head stay whole: every rank computes all logits, and the log-probs and
    entropies of the whole vocabulary need no further sum over ranks.

    Args:
        model: the base model, whose layers the plan names.
        config: of the model.
        mesh: the ranks that share a block, one dimension.
    """
    patterns = {
        re.compile(re.escape(name).replace(r"\*", r"\d+")): STYLES[style]
        for name, style in block_plan(config).items()
    }
    styles: dict[str, Any] = {}
    for name, _ in model.named_modules():
        for pattern, style in patterns.items():
            if pattern.fullmatch(name):
                styles[name] = style()
    parallelize_module(model, mesh, styles)

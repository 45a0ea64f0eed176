"""A whole copy of a sharded policy, for what one rank does alone."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_adapters import adapted_layers, base_name, is_adapter, merged_weight
from gtpo_lit.whole import named_parts, whole


def whole_twin(policy: CausalPolicy) -> CausalPolicy:
    """A policy of the same architecture that is split over no ranks, on the same device.

    Its weights are random until `copy_weights`; global random streams stay as they are. It takes
    the memory of the whole model on every rank.
    """
    model = policy.model
    auto: Any = AutoModelForCausalLM  # its methods carry no types
    with torch.random.fork_rng(devices=[]):
        made = auto.from_config(
            model.config,
            dtype=model.dtype,
            attn_implementation=model.config._attn_implementation,
        )
    made.generation_config = copy.deepcopy(model.generation_config)
    twin = CausalPolicy(
        made.requires_grad_(False).eval(),
        policy.tokenizer,
        chunk_size=policy.chunk_size,
        plain_head=policy.has_plain_head(),
    )
    return twin.to(next(policy.parameters()).device)


@torch.no_grad()
def copy_weights(policy: CausalPolicy, twin: CausalPolicy) -> None:
    """Give `twin` the weights of `policy`, adapters merged, one by one. A collective."""
    targets, layers = dict(twin.model.named_parameters()), adapted_layers(policy.model)
    for full_name, value in named_parts(policy.model):
        if not is_adapter(full_name):
            name, weight = base_name(full_name), whole(value)
            targets[name].copy_(merged_weight(layers[name], weight) if name in layers else weight)

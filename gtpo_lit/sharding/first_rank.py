"""A policy that rank 0 alone reads; the other ranks know what it is like."""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from transformers import AutoModelForCausalLM

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_adapters import adapt
from gtpo_lit.policy_spec import PolicySpec


def load_on_first_rank(spec: PolicySpec) -> CausalPolicy | None:
    """The whole policy on rank 0, None on the others. A collective.

    Raises:
        ValueError: what `PolicySpec.load` raises, on every rank.
    """
    whole, failure = None, [None]
    if dist.get_rank() == 0:
        try:
            whole = spec.load()
            whole.has_plain_head()  # asked of whole weights, known for the sharded ones
        except Exception as error:
            failure = [error]  # type: ignore[list-item]
    dist.broadcast_object_list(failure, src=0)
    if failure[0] is not None:
        raise failure[0]
    return whole


def empty_policy(spec: PolicySpec, whole: CausalPolicy | None) -> CausalPolicy:
    """A policy of the same architecture without memory ("meta"). A collective.

    Args:
        spec: which policy.
        whole: what `load_on_first_rank` returned.
    """
    facts: list[Any] = [None]
    if whole is not None:
        model = whole.model
        generation = copy.deepcopy(model.generation_config)
        facts = [(model.config, model.dtype, generation, whole.has_plain_head())]
    dist.broadcast_object_list(facts, src=0)
    config, dtype, generation, plain = facts[0]
    auto: Any = AutoModelForCausalLM  # its methods carry no types
    with torch.device("meta"):
        model = auto.from_config(
            config,
            dtype=dtype,
            attn_implementation=config._attn_implementation,
            trust_remote_code=spec.trust_remote_code,
        )
    model.generation_config = generation
    if spec.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    policy = CausalPolicy(
        model.train(), spec.load_tokenizer(), chunk_size=spec.chunk_size, plain_head=plain
    )
    if spec.lora is not None:
        adapt(policy, spec.lora)
    return policy


@torch.no_grad()
def share(tensor: Tensor) -> None:
    """Give `tensor`, of any shape, the values that it has on rank 0. A collective."""
    value = tensor.detach().to(channel())
    dist.broadcast(value, src=0)
    if dist.get_rank() != 0:
        tensor.copy_(value)


def channel() -> torch.device:
    """Where a collective of the default group wants its tensors."""
    backend = dist.get_backend()
    return (
        torch.device("cuda", torch.cuda.current_device())
        if backend == "nccl"
        else torch.device("cpu")
    )

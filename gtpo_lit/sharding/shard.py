"""Loading a policy so that no rank but the first ever holds all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sharding.first_rank import channel, empty_policy, load_on_first_rank
from gtpo_lit.sharding.tensor_parallel import split_blocks


@dataclass(frozen=True, kw_only=True)
class ShardOptions:
    """How a policy is split and computed with."""

    reshard_after_forward: bool = True
    """Give a block's whole weights back after its forward, and gather them again in backward."""
    compute_dtype: str | None = None
    """What blocks compute in, such as `bfloat16`; the shards and the sums stay in their own."""
    cpu_offload: bool = False
    """Keep shards, gradients and optimiser states in the memory of the CPU."""


def load_sharded(
    spec: PolicySpec, mesh: DeviceMesh, device: torch.device, options: ShardOptions
) -> CausalPolicy:
    """The policy, split over `mesh`; rank 0 alone reads the weights. A collective.

    The others make the model without memory ("meta"), split it, and get their shards of one
    parameter after the other. What is not saved with the weights, such as the frequencies of
    rotary positions, comes from rank 0 as well.

    Args:
        spec: which policy.
        mesh: of the dimensions `data_parallel` and `tensor_parallel`.
        device: where this rank's shards go; the CPU with `cpu_offload`.
        options: how to split.

    Raises:
        ValueError: what `PolicySpec.load` raises, on every rank.
    """
    whole = load_on_first_rank(spec)
    policy = empty_policy(spec, whole)
    if mesh["tensor_parallel"].size() > 1:
        split_blocks(policy.model.base_model, policy.model.config, mesh["tensor_parallel"])
    _shard(policy, mesh["data_parallel"], options)
    home = torch.device("cpu") if options.cpu_offload else device
    policy.to_empty(device=home)
    # Emptying parameters unties them.
    policy.model.tie_weights()
    _fill(policy, whole, home)
    policy.train()
    return policy


def _shard(policy: CausalPolicy, mesh: DeviceMesh, options: ShardOptions) -> None:
    arguments: dict[str, Any] = {
        "mesh": mesh,
        "reshard_after_forward": options.reshard_after_forward,
    }
    if options.compute_dtype is not None:
        dtype = getattr(torch, options.compute_dtype)
        arguments["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False
        )
    if options.cpu_offload:
        arguments["offload_policy"] = CPUOffloadPolicy(pin_memory=torch.cuda.is_available())
    for layer in blocks(policy.model):
        fully_shard(layer, **arguments)
    # The policy is the root, so that embedding and head are whole in the whole of its forward.
    fully_shard(policy, **arguments)


def blocks(model: nn.Module) -> list[nn.Module]:
    """The model's repeated blocks: the members of its largest list of modules.

    Raises:
        ValueError: it has none, so that it cannot be split block by block.
    """
    lists = [list(child) for child in model.modules() if isinstance(child, nn.ModuleList)]
    longest = max(lists, key=len, default=[])
    if not longest:
        raise ValueError(f"{type(model).__name__} has no list of blocks to shard one by one")
    return longest


@torch.no_grad()
def _fill(policy: CausalPolicy, whole: CausalPolicy | None, home: torch.device) -> None:
    """Send rank 0's tensors out one by one; every rank keeps its shards of them."""
    source = {} if whole is None else _tensors(whole.model)
    for name, target in _tensors(policy.model).items():
        value = (
            source[name].detach()
            if name in source
            else torch.empty(target.shape, dtype=target.dtype)
        )
        value = value.to(channel())
        dist.broadcast(value, src=0)
        if isinstance(target, DTensor):
            shard = distribute_tensor(
                value.to(target.device_mesh.device_type),
                target.device_mesh,
                target.placements,
                src_data_rank=None,  # every rank has the same values already
            )
            target.to_local().copy_(shard.to_local())
        else:
            target.copy_(value.to(home))


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    """All parameters, tied ones once, and all buffers, those that are never saved included."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}

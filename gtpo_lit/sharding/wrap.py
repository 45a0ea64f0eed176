"""A policy whose blocks and model are wrapped by FSDP1, torch's older way of splitting."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from transformers import PreTrainedModel

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sharding.first_rank import empty_policy, load_on_first_rank, share
from gtpo_lit.sharding.shard import blocks


@dataclass(frozen=True, kw_only=True)
class WrapOptions:
    """How FSDP1 splits a policy and computes with it."""

    reshard_after_forward: bool = True
    """Give a block's whole weights back after its forward, and gather them again in backward."""
    compute_dtype: str | None = None
    """What the policy computes in, such as `bfloat16`; pieces and sums stay in their own."""


class WrappedPolicy(CausalPolicy):
    """A policy that computes inside of its model's wrapper, which gathers the weights.

    `model` is the wrapper. It passes attributes on to what it wraps; its `state_dict` has the
    plain names, with tensors that `gtpo_lit.whole.whole` puts together.
    """

    def forward(self, *args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        """As `CausalPolicy.forward`. A collective."""
        network, score = self._network, super().forward

        def inside(*args: Any, **options: Any) -> Any:
            # The policy itself asks for outputs of the network.
            del network.__dict__["forward"]
            return score(*args, **options)

        # The head's weights are read beside the network's own forward, so that scoring as a whole
        # takes its place while they are gathered.
        network.__dict__["forward"] = inside
        try:
            values: tuple[Tensor, Tensor | None] = self.model(*args, **options)
        finally:
            network.__dict__.pop("forward", None)
        return values

    @property
    def _network(self) -> nn.Module:
        wrapper: Any = self.model
        network: nn.Module = wrapper.module
        return network


def load_wrapped(spec: PolicySpec, device: torch.device, options: WrapOptions) -> CausalPolicy:
    """The policy, split over all ranks by FSDP1; rank 0 alone reads the weights. A collective.

    The others get each block as it is wrapped. One rank alone has nothing to split: it gets a
    plain policy.

    Args:
        spec: which policy.
        device: where this rank's pieces go, CPUs included.
        options: how to split.

    Raises:
        ValueError: what `PolicySpec.load` raises, on every rank.
    """
    if dist.get_world_size() == 1:
        return spec.load().to(device)
    whole = load_on_first_rank(spec)
    found = empty_policy(spec, whole) if whole is None else _known_to_all(spec, whole)
    policy = WrappedPolicy(
        found.model,
        found.tokenizer,
        chunk_size=found.chunk_size,
        plain_head=found.has_plain_head(),
    )
    policy.model = _wrap(policy.model, device, options)
    return policy.train()


def _known_to_all(spec: PolicySpec, whole: CausalPolicy) -> CausalPolicy:
    # The other ranks make theirs from what rank 0 tells them on the way.
    empty_policy(spec, whole)
    return whole


def _wrap(model: PreTrainedModel, device: torch.device, options: WrapOptions) -> PreTrainedModel:
    """The wrapper around `model`, whose type is a promise that attributes keep."""
    arguments = _arguments(device, options)
    layers = {id(layer) for layer in blocks(model)}
    inside = {id(part) for layer in blocks(model) for part in layer.modules()}
    for part in model.modules():
        if id(part) not in inside:
            _fill(part, device)
    # Emptying parameters unties them.
    model.tie_weights()
    for parent in [part for part in model.modules() if isinstance(part, nn.ModuleList)]:
        for index, layer in enumerate(parent):
            if id(layer) in layers:
                for part in layer.modules():
                    _fill(part, device)
                parent[index] = FullyShardedDataParallel(layer, **arguments)
    root = FullyShardedDataParallel(model, **arguments)
    with warnings.catch_warnings():
        # torch advises `get_state_dict`, which knows nothing of a model's own `state_dict`.
        warnings.simplefilter("ignore", FutureWarning)
        FullyShardedDataParallel.set_state_dict_type(
            root, StateDictType.SHARDED_STATE_DICT, ShardedStateDictConfig(offload_to_cpu=False)
        )
    return cast(PreTrainedModel, root)


def _arguments(device: torch.device, options: WrapOptions) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "device_id": device,  # a CPU, too, which torch takes only if it is named
        "device_mesh": init_device_mesh(device.type, (dist.get_world_size(),)),
        "use_orig_params": True,
        "sharding_strategy": ShardingStrategy.FULL_SHARD
        if options.reshard_after_forward
        else ShardingStrategy.SHARD_GRAD_OP,
    }
    if options.compute_dtype is not None:
        arguments["mixed_precision"] = MixedPrecision(
            param_dtype=getattr(torch, options.compute_dtype),
            reduce_dtype=torch.float32,
            cast_root_forward_inputs=False,
        )
    return arguments


def _fill(module: nn.Module, device: torch.device) -> None:
    """Rank 0's values for the tensors of `module` itself; torch shares none of them on CPUs."""
    if any(tensor.is_meta for tensor in _own(module)):
        module.to_empty(device=device, recurse=False)
    for tensor in _own(module):
        share(tensor)


def _own(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(recurse=False), *module.buffers(recurse=False)]

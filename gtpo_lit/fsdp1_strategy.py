"""FSDP1 for a trainer: `configs/strategy/fsdp.yaml`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.plugins import FSDPPrecision
from lightning.pytorch.plugins.precision import Precision
from lightning.pytorch.strategies import FSDPStrategy
from lightning.pytorch.trainer.states import TrainerFn
from torch.nn import Module

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sharding import COMPUTE_DTYPES, WrapOptions, clip_gradients, load_wrapped
from gtpo_lit.sharding.full_state import (
    full_optimizer_state,
    full_weights,
    load_full_optimizer_state,
    load_full_weights,
)


class FSDP1Strategy(FSDPStrategy):
    """Lightning's `FSDPStrategy` around the policy alone, not around the module that trains it.

    A policy is also called outside of training steps, to score rollouts, and its weights go to the
    sampler. Runs on GPUs (NCCL) and on CPUs (gloo). Gradients are summed over ranks after every
    micro-batch. A checkpoint is one file with whole tensors under plain names, which any number of
    ranks and any strategy for one device reads.

    Args:
        reshard_after_forward: give a block's whole weights back after its forward and gather them
            again in the backward (FULL_SHARD); false saves time and takes memory (SHARD_GRAD_OP).
        compute_dtype: what the policy computes in, with pieces, sums and optimiser states in the
            policy's dtype; the policy's dtype if null.
        process_group_backend: gloo or nccl; by the device if null.
        timeout: how long a rank may wait for another one.
    """

    def __init__(
        self,
        reshard_after_forward: bool = True,
        compute_dtype: str | None = None,
        process_group_backend: str | None = None,
        timeout: timedelta | None = timedelta(hours=6),
    ) -> None:
        """Check the options.

        Raises:
            ValueError: naming option and value.
        """
        if compute_dtype not in COMPUTE_DTYPES:
            raise ValueError(
                f"FSDP1Strategy: compute_dtype must be one of {COMPUTE_DTYPES}, "
                f"got {compute_dtype!r}"
            )
        super().__init__(process_group_backend=process_group_backend, timeout=timeout)
        self.wrap_options = WrapOptions(
            reshard_after_forward=reshard_after_forward, compute_dtype=compute_dtype
        )

    @property
    def precision_plugin(self) -> FSDPPrecision:
        """Leaves the policy as it was loaded."""
        return AsLoaded()

    @precision_plugin.setter
    def precision_plugin(self, plugin: Precision | None) -> None:
        """Take note of `trainer.precision`.

        Raises:
            ValueError: it asks for another precision than the policy's own.
        """
        precision = getattr(plugin, "precision", "32-true")
        if precision != "32-true":
            raise ValueError(
                f"trainer.precision = {precision!r} with FSDP1Strategy: leave it at 32-true and "
                "set compute_dtype of the strategy, or model.policy.dtype"
            )

    def load_policy(self, spec: PolicySpec) -> CausalPolicy:
        """The policy, split over the ranks. A collective.

        Raises:
            ValueError: what `PolicySpec.load` raises, or the policy has adapters.
        """
        if spec.lora is not None:
            raise ValueError(
                "model.policy.lora with FSDP1Strategy: FSDP1 does not split a block whose weights "
                "have several dtypes; take configs/strategy/fsdp2.yaml, which does"
            )
        return load_wrapped(spec, self.root_device, self.wrap_options)

    def _setup_model(self, model: Module) -> Module:
        # The policy inside is wrapped already; Lightning would wrap all of the module.
        return model.to(self.root_device)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """All weights on rank 0, nothing elsewhere. A collective."""
        assert self.model is not None
        return full_weights(self.model, keep=self.is_global_zero)

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """The optimiser's state as one rank would save it, on rank 0. A collective."""
        assert self.model is not None
        if isinstance(optimizer, LightningOptimizer):
            optimizer = optimizer._optimizer
        return full_optimizer_state(self.model, optimizer, keep=self.is_global_zero)

    def load_checkpoint(
        self, checkpoint_path: str | os.PathLike[str], weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Give every rank its pieces; the rest of the checkpoint. A collective.

        Raises:
            ValueError: the checkpoint is of another policy or optimiser.
        """
        assert self.model is not None
        assert self.lightning_module is not None
        path = Path(self.broadcast(checkpoint_path))
        # Mapped, so that ranks of one machine share what they read.
        content: dict[str, Any] = torch.load(
            path, map_location="cpu", mmap=True, weights_only=weights_only is not False
        )
        strict = self.lightning_module.strict_loading
        load_full_weights(self.model, content.pop("state_dict"), strict=strict)
        if self.lightning_module.trainer.state.fn == TrainerFn.FITTING:
            states = content.get("optimizer_states", [])
            for optimizer, state in zip(self.optimizers, states, strict=False):
                load_full_optimizer_state(self.model, optimizer, state)
        return content


class AsLoaded(FSDPPrecision):
    """Leaves policy and batches in the dtypes that they have.

    Lightning's own would cast a policy in float64 or bfloat16 to float32.
    """

    def __init__(self) -> None:
        super().__init__("32-true")

    def clip_grad_by_norm(self, optimizer: Any, clip_val: int | float, *_: Any) -> None:
        """Clip by the norm over all ranks, which Lightning's own does not know. A collective."""
        clip_gradients([*self.main_params(optimizer)], clip_val)

    def convert_module(self, module: Module) -> Module:
        """The module as it is."""
        return module

    def convert_input(self, data: Any) -> Any:
        """The batch as it is."""
        return data

    def convert_output(self, data: Any) -> Any:
        """The result as it is."""
        return data

    def forward_context(self) -> AbstractContextManager[None]:
        """Nothing to switch on."""
        return nullcontext()

    tensor_init_context: Callable[..., AbstractContextManager[None]] = forward_context
    module_init_context: Callable[..., AbstractContextManager[None]] = forward_context

"""FSDP2 and tensor parallelism for a trainer, and which strategies are refused."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch.strategies import (
    DeepSpeedStrategy,
    FSDPStrategy,
    ModelParallelStrategy,
    Strategy,
)
from torch.distributed.fsdp import FSDPModule

from gtpo_lit.fsdp1_strategy import FSDP1Strategy
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sharding import (
    COMPUTE_DTYPES,
    ShardOptions,
    check_tensor_parallel,
    load_sharded,
)
from gtpo_lit.sharding.shard_writer import shards_written_to

__all__ = ["FSDP1Strategy", "ShardedStrategy", "refuse_sharded_checkpoint", "refuse_unfit"]


class ShardedStrategy(ModelParallelStrategy):
    """Splits policy, reference, gradients and optimiser states over ranks (FSDP2).

    Runs on GPUs (NCCL) and on CPUs (gloo), on one node or many. Ranks that share a block by tensor
    parallelism train on the same sequences; all ranks sample.

    Args:
        data_parallel_size: ranks that train on different sequences; "auto" takes all ranks,
            divided by `tensor_parallel_size`.
        tensor_parallel_size: ranks that share each block.
        reshard_after_forward: give a block's whole weights back after its forward and gather them
            again in the backward; false saves time and takes memory.
        compute_dtype: what blocks compute in, with shards, sums and optimiser states in the
            policy's dtype; the policy's dtype if null.
        cpu_offload: keep shards, gradients and optimiser states in the memory of the CPU.
        reduce_each_backward: sum gradients over ranks after every micro-batch, not once an
            optimiser step. Those that wait are whole on every rank, which a large model has no
            memory for; it costs as many collectives as there are micro-batches.
        save_distributed_checkpoint: each rank writes its own part of a checkpoint, which is then a
            folder; false gathers all on rank 0 and writes one file.
        process_group_backend: gloo or nccl; by the device if null.
        timeout: how long a rank may wait for another one.
    """

    def __init__(
        self,
        data_parallel_size: Literal["auto"] | int = "auto",
        tensor_parallel_size: int = 1,
        reshard_after_forward: bool = True,
        compute_dtype: str | None = None,
        cpu_offload: bool = False,
        reduce_each_backward: bool = False,
        save_distributed_checkpoint: bool = True,
        process_group_backend: str | None = None,
        timeout: timedelta | None = timedelta(hours=6),
    ) -> None:
        """Check the options.

        Raises:
            ValueError: naming option and value.
        """
        for name, size in (
            ("data_parallel_size", data_parallel_size),
            ("tensor_parallel_size", tensor_parallel_size),
        ):
            if size != "auto" and (isinstance(size, str) or size < 1):
                raise ValueError(f"ShardedStrategy: {name} must be at least 1, got {size!r}")
        if compute_dtype not in COMPUTE_DTYPES:
            raise ValueError(
                f"ShardedStrategy: compute_dtype must be one of {COMPUTE_DTYPES}, "
                f"got {compute_dtype!r}"
            )
        super().__init__(
            data_parallel_size=data_parallel_size,
            tensor_parallel_size=tensor_parallel_size,
            save_distributed_checkpoint=save_distributed_checkpoint,
            process_group_backend=process_group_backend,
            timeout=timeout,
        )
        self.shard_options = ShardOptions(
            reshard_after_forward=reshard_after_forward,
            compute_dtype=compute_dtype,
            cpu_offload=cpu_offload,
        )
        self.reduce_each_backward = reduce_each_backward

    def setup_environment(self) -> None:
        """Start the process group, with sizes that multiply to the number of ranks.

        Raises:
            ValueError: they do not.
        """
        ranks = self.num_nodes * self.num_processes
        tensor = int(self._tensor_parallel_size)
        if self._data_parallel_size == "auto":
            self._data_parallel_size = max(1, ranks // tensor)
        if self._data_parallel_size * tensor != ranks:
            raise ValueError(
                f"ShardedStrategy: data_parallel_size = {self._data_parallel_size} times "
                f"tensor_parallel_size = {tensor} is not the number of ranks, {ranks} "
                "(trainer.devices times trainer.num_nodes)"
            )
        super().setup_environment()

    def load_policy(self, spec: PolicySpec) -> CausalPolicy:
        """The policy, split over the ranks. A collective.

        Raises:
            ValueError: what `PolicySpec.load` raises, or the model does not split.
        """
        size = int(self._tensor_parallel_size)
        if size > 1 and spec.lora is not None:
            raise ValueError(
                f"tensor_parallel_size = {size} with model.policy.lora: adapters are not split "
                "over ranks; set it to 1 (FSDP2 alone takes adapters)"
            )
        check_tensor_parallel(spec.load_config(), size)
        return load_sharded(spec, self.device_mesh, self.root_device, self.shard_options)

    def model_to_device(self) -> None:
        """Move what is not there yet; shards that live on the CPU stay there."""
        if not self.shard_options.cpu_offload:
            super().model_to_device()

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        """One micro-batch; by default, gradients are summed over ranks once an optimiser step.

        Lightning leaves the sums on while it accumulates.
        """
        assert self.lightning_module is not None
        steps = not self.lightning_module.trainer.fit_loop._should_accumulate()
        reduces = steps or self.reduce_each_backward
        for module in self.lightning_module.modules():
            if isinstance(module, FSDPModule):
                module.set_requires_gradient_sync(reduces, recurse=False)
        return super().training_step(*args, **kwargs)

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        filepath: str | Path,
        storage_options: Any | None = None,
    ) -> None:
        """Write a checkpoint. A collective.

        Raises:
            OSError: on all ranks, if shards of any cannot be written, as on a full disk.
        """
        with shards_written_to(self.broadcast(filepath)):
            super().save_checkpoint(checkpoint, filepath, storage_options)


def refuse_unfit(strategy: Strategy) -> None:
    """Refuse strategies that wrap or split the model themselves.

    A policy is also called outside of training steps, to score rollouts, and its weights go to the
    sampler; a wrapper around the whole module knows nothing of either.

    Raises:
        ValueError: naming the strategy and what to take instead.
    """
    wrapping = (FSDPStrategy, DeepSpeedStrategy, ModelParallelStrategy)
    if isinstance(strategy, wrapping) and not isinstance(strategy, ShardedStrategy | FSDP1Strategy):
        raise ValueError(
            f"trainer.strategy = {type(strategy).__name__} cannot train a policy: take "
            "gtpo_lit.strategy.ShardedStrategy (configs/strategy/fsdp2.yaml), which splits it by "
            "FSDP2, or gtpo_lit.strategy.FSDP1Strategy (configs/strategy/fsdp.yaml), by FSDP1; "
            "both on GPUs and CPUs"
        )


def refuse_sharded_checkpoint(strategy: Strategy, path: str | os.PathLike[str] | None) -> None:
    """Refuse a checkpoint of many parts where one file is needed.

    Raises:
        ValueError: naming the checkpoint and the ways out.
    """
    if path and Path(path).is_dir() and not isinstance(strategy, ShardedStrategy):
        raise ValueError(
            f"ckpt_path = {os.fspath(path)!r} is a sharded checkpoint, a folder, which "
            f"{type(strategy).__name__} cannot read: put it together with `gtpo-lit consolidate`, "
            "or add --config configs/strategy/fsdp2.yaml (any number of devices, one included)"
        )

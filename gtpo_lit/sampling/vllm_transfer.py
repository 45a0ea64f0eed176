"""What a `vllm serve` worker needs to take the trainer's weights; runs in the worker's process.

`vllm serve --worker-extension-cls gtpo_lit.sampling.vllm_transfer.WorkerExtension` mixes these
methods into every worker. Weights come as the path of a safetensors file, in shared memory or in
a folder that both machines see; that works on CPUs and on GPUs, and with any number of workers,
as each reads the file for itself. The other transport, NCCL from GPU to GPU, is vLLM's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from gtpo_lit.sampling.vllm_reload import reload_weights


class WorkerExtension:
    """Methods that a server's workers get beside their own, for `/collective_rpc`."""

    vllm_config: Any

    def gtpo_lit_setup(self) -> dict[str, Any]:
        """How the server was started, as far as a trainer must know."""
        config = self.vllm_config
        transfer = config.weight_transfer_config
        return {
            "logprobs_mode": str(config.model_config.logprobs_mode),
            "max_model_len": int(config.model_config.max_model_len),
            "max_num_seqs": int(config.scheduler_config.max_num_seqs),
            "weight_transfer": None if transfer is None else str(transfer.backend),
        }

    def gtpo_lit_load(self, path: str) -> dict[str, Any]:
        """Load all parameters from a safetensors file; see `reload_weights`.

        Raises:
            FileNotFoundError: this machine does not see the file.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(
                f"the weights file {path!r} is not there on the server's machine; the sampler's "
                "weights_folder must be one that trainer and servers share"
            )
        reload_weights(self, read_tensors(path))
        return {"bytes": os.path.getsize(path)}

    def gtpo_lit_abandon_transfer(self) -> dict[str, Any]:
        """End an NCCL update that a trainer left unfinished, so that the next one can start."""
        worker: Any = self
        left = bool(worker._weight_update_active)
        if left:
            worker._weight_update_active = False
            worker.weight_transfer_engine.reset_weight_update_target()
        return {"abandoned": left}


def read_tensors(path: str | os.PathLike[str]) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of a safetensors file, one at a time, mapped and not copied."""
    from safetensors import safe_open

    opened: Any = safe_open(path, framework="pt")  # its methods carry no types
    with opened as file:
        for name in file.keys():  # noqa: SIM118 (it is no mapping)
            yield name, file.get_tensor(name)

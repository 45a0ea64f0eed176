"""A vLLM engine in the trainer's own process."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.sampling.vllm_checks import EngineOptions
from gtpo_lit.sampling.vllm_process import on_cpu, shared_process, without_compiling
from gtpo_lit.sampling.vllm_reload import reload_weights
from gtpo_lit.sampling.vllm_requests import EngineRequest

# Without a size, vLLM takes its share of all memory at once on a CPU.
CPU_KV_CACHE_MIB = 512


class InProcessEngine:
    """One `vllm.LLM` in this process; under several ranks each has one, or a shard of one.

    It must be built on all ranks at once, and after the trainer's process group: it would make a
    group of its own, which the trainer would take for its own and so train every rank alone.
    """

    # Engines of one process share vLLM's process groups.
    alive = 0
    owns_group = False

    def __init__(self, policy: CausalPolicy, options: EngineOptions) -> None:
        """Build an engine of `policy`'s architecture; its weights are random until `load`."""
        if InProcessEngine.alive == 0:
            InProcessEngine.owns_group = not dist.is_initialized()
        with shared_process(), tempfile.TemporaryDirectory() as folder:
            # The architecture alone: weights are pushed, and the policy's tokenizer decodes.
            policy.model.config.save_pretrained(folder)
            self._llm = _build(folder, next(policy.parameters()), options)
        engine: Any = self._llm.llm_engine
        self.max_model_len = int(engine.model_config.max_model_len)
        self._worker = engine.model_executor.driver_worker.worker
        InProcessEngine.alive += 1

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Replace all weights. The prefix cache still holds what the old ones computed."""
        with shared_process():
            reload_weights(self._worker, weights)

    def reset_prefix_cache(self) -> bool:
        """Forget all cached keys and values; false if some are still in use."""
        return bool(self._llm.reset_prefix_cache())

    def generate(self, requests: Sequence[EngineRequest], seed: int) -> list[Any]:
        """A `vllm.RequestOutput` for each request, in order.

        `seed` starts the one stream of all requests that bring none of their own.
        """
        from vllm import SamplingParams

        with shared_process(), without_compiling():
            torch.manual_seed(seed)
            outputs = self._llm.generate(
                [{"prompt_token_ids": list(request.prompt_ids)} for request in requests],
                [SamplingParams(**request.params) for request in requests],
                use_tqdm=False,
            )
        return list(outputs)

    def abort(self) -> None:
        """Drop all requests that a failed `generate` left behind."""
        engine: Any = self._llm.llm_engine
        engine.abort_request(list(engine.output_processor.request_states), internal=True)

    def sleep(self) -> None:
        """Give the memory of weights and cache back; what they held is gone."""
        self._llm.sleep(level=2)

    def wake_up(self) -> None:
        """Take the memory again; weights must be loaded before the next request."""
        self._llm.wake_up()

    def close(self) -> None:
        """Give everything back; the trainer's process group stays as it was."""
        with _kept_groups():
            self._llm.llm_engine.engine_core.shutdown()
        del self._llm, self._worker
        InProcessEngine.alive -= 1
        if InProcessEngine.alive == 0:
            _leave_groups(owned=InProcessEngine.owns_group)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextmanager
def _kept_groups() -> Iterator[None]:
    """Keep an engine that shuts down from destroying every process group of the process."""
    from vllm.v1.engine import core

    destroy = core.cleanup_dist_env_and_memory
    core.cleanup_dist_env_and_memory = lambda: None
    try:
        yield
    finally:
        core.cleanup_dist_env_and_memory = destroy


def _leave_groups(*, owned: bool) -> None:
    """Destroy vLLM's process groups, and the process's own only if vLLM made it."""
    from vllm import envs
    from vllm.distributed import parallel_state

    envs.disable_envs_cache()
    parallel_state.destroy_model_parallel()
    if owned:
        parallel_state.destroy_distributed_environment()
    elif parallel_state._WORLD is not None:
        # vLLM's own function would destroy the trainer's group as well.
        parallel_state._WORLD.destroy()
        parallel_state._WORLD = None


def _build(folder: str, weight: Tensor, options: EngineOptions) -> Any:
    from vllm import LLM

    cpu, dtype = on_cpu(), str(weight.dtype).removeprefix("torch.")
    arguments: dict[str, Any] = {
        "dtype": dtype if options.dtype == "policy" else options.dtype,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "logprobs_mode": "processed_logprobs",  # at the sampling temperature
        "enforce_eager": cpu if options.eager is None else options.eager,
        "enable_prefix_caching": options.prefix_caching,
        "enable_sleep_mode": options.sleep,
        "max_num_seqs": options.max_num_seqs,
        "max_model_len": options.max_model_len,
        "gpu_memory_utilization": options.memory_share,
        "tensor_parallel_size": options.tensor_parallel,
        "disable_log_stats": True,
    }
    if cpu:
        # Where a prompt is cut over two batches vLLM winds the request's random stream back, which
        # CPU generators cannot do: the engine dies.
        arguments["enable_chunked_prefill"] = False
    if options.kv_cache_mib is not None or cpu:
        arguments["kv_cache_memory_bytes"] = (options.kv_cache_mib or CPU_KV_CACHE_MIB) << 20
    if dist.is_initialized() and dist.get_world_size() > 1:
        arguments["distributed_executor_backend"] = "external_launcher"
        os.environ["RANK"] = str(dist.get_rank())
        os.environ["WORLD_SIZE"] = str(dist.get_world_size())
        os.environ["LOCAL_RANK"] = str(weight.device.index or 0)
    return LLM(folder, **arguments)

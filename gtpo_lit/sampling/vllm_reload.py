"""New weights into a running vLLM worker, tied output heads on CPUs included."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn


def reload_weights(worker: Any, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Replace the weights of a vLLM worker's model; runs in the worker's process.

    The engine copies every tensor, one at a time, so `weights` may be a generator over the
    trainer's own parameters. The prefix cache is the caller's to reset, once all workers are done.

    Args:
        worker: what `worker_extension_cls` methods get as `self`, or, in process,
            `llm.llm_engine.model_executor.driver_worker.worker`.
        weights: whole parameters under their Hugging Face names. A tied output head may be left
            out.
    """
    worker.reload_weights(weights_iterator=weights)
    repack_embeddings(worker.model_runner.model)


def repack_embeddings(model: nn.Module) -> None:
    """Pack embeddings and output heads anew where vLLM's CPU backend keeps packed copies.

    That backend packs the weights of linear layers for oneDNN. A reload packs again only those
    modules that received tensors. A tied head receives none, as it shares the embedding's
    parameter, and would go on with its old packed copy, so that logits stay those of the old
    weights. Elsewhere nothing is packed, and this does nothing. To be called after every reload,
    however the weights came.
    """
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    for module in model.modules():
        if isinstance(module, VocabParallelEmbedding) and hasattr(module, "cpu_linear"):
            # The embedding looks its rows up in the plain weight, which must stay.
            dispatch_cpu_unquantized_gemm(module, remove_weight=False)

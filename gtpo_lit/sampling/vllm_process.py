"""Sharing a process with vLLM: what it changes for everybody in it, put back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from lightning.pytorch.utilities.seed import isolate_rng

DEFAULTS = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # The trainer's threads are these very threads.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}


@contextmanager
def shared_process() -> Iterator[None]:
    """Code of vLLM in the trainer's process, which stays as it was.

    vLLM seeds the global random streams and draws from them, sets environment variables that
    processes started later would inherit, and takes `torch.set_num_threads` away.
    """
    set_num_threads = torch.set_num_threads
    with isolate_rng(include_cuda=torch.cuda.is_available()), kept_environment():
        try:
            yield
        finally:
            torch.set_num_threads = set_num_threads


@contextmanager
def kept_environment() -> Iterator[None]:
    """What an engine in process needs in the environment, for as long as it is needed."""
    before = dict(os.environ)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def without_compiling() -> AbstractContextManager[Any]:
    """On CPUs, half a minute saved: vLLM would compile what ranks the sampled tokens."""
    return torch.compiler.set_stance("force_eager") if on_cpu() else nullcontext()


def on_cpu() -> bool:
    """Whether the installed vLLM computes on CPUs."""
    with kept_environment():
        from vllm.platforms import current_platform

        return bool(current_platform.is_cpu())

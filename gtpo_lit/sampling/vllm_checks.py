"""The options of a vLLM engine, and what it cannot do, told before any weights load."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from gtpo_lit.sampling.vllm_process import kept_environment, on_cpu

if TYPE_CHECKING:
    from transformers import PretrainedConfig

EngineDtype = Literal["policy", "float32", "bfloat16", "float16"]

OPTION = "data.sampler"
HINT = (
    f"{OPTION}: vLLM is not installed; `pip install 'gtpo-lit[vllm]'` installs it for GPUs, "
    "`make setup-vllm` for CPUs"
)
# What vLLM's attention on CPUs is compiled for; another size ends the process at its first token.
CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """What an engine is built with; `VLLMSampler` says what they mean."""

    memory_share: float = 0.3
    kv_cache_mib: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 256
    eager: bool | None = None
    dtype: EngineDtype = "policy"
    tensor_parallel: int = 1
    sleep: bool = False
    prefix_caching: bool = True

    def __post_init__(self) -> None:
        """Raise ValueError on values out of range, naming option and value."""
        if not 0 < self.memory_share <= 1:
            raise ValueError(f"{OPTION}.memory_share must be in (0, 1], got {self.memory_share}")
        if self.dtype not in get_args(EngineDtype):
            raise ValueError(
                f"{OPTION}.dtype must be in {get_args(EngineDtype)}, got {self.dtype!r}"
            )
        for name, least in (
            ("kv_cache_mib", 1),
            ("max_model_len", 2),
            ("max_num_seqs", 1),
            ("tensor_parallel", 1),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{OPTION}.{name} must be at least {least}, got {value}")


def require_vllm() -> None:
    """Raise ValueError with a hint of one line if vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ValueError(HINT)


def check_model(config: PretrainedConfig, options: EngineOptions) -> None:
    """Refuse a policy that the installed vLLM cannot run, and options that do not suit it.

    Raises:
        ValueError: naming option and value.
    """
    with kept_environment():
        from vllm import ModelRegistry

        known = ModelRegistry.get_supported_archs()
    names = list(config.architectures or ())
    if not any(name in known for name in names):
        raise ValueError(f"{OPTION}: vLLM knows no model of the policy's architecture {names}")
    limit = max_positions(config)
    if limit is not None and (options.max_model_len or 0) > limit:
        raise ValueError(
            f"{OPTION}.max_model_len = {options.max_model_len} is longer than the policy's "
            f"{limit} positions"
        )
    if not on_cpu():
        return
    if options.sleep:
        raise ValueError(f"{OPTION}.sleep = true needs a GPU: on a CPU vLLM cannot sleep")
    size = head_size(config)
    if size not in CPU_HEAD_SIZES:
        raise ValueError(
            f"{OPTION}: on a CPU vLLM runs attention heads of size {CPU_HEAD_SIZES}, but the "
            f"policy's have size {size}"
        )


def max_positions(config: PretrainedConfig) -> int | None:
    """Longest sequence that a model has positions for; None if it sets no limit."""
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return None if limit is None else int(limit)


def head_size(config: PretrainedConfig) -> int:
    """Size of one attention head."""
    text = config.get_text_config()
    given = getattr(text, "head_dim", None)
    return int(given or text.hidden_size // text.num_attention_heads)

"""A policy split over ranks: by FSDP2, by tensor parallelism, by both, or by FSDP1."""

from gtpo_lit.sharding.dtypes import COMPUTE_DTYPES
from gtpo_lit.sharding.gradients import clip_gradients, gradient_norm
from gtpo_lit.sharding.shard import ShardOptions, load_sharded
from gtpo_lit.sharding.tensor_parallel import check_tensor_parallel
from gtpo_lit.sharding.twin import copy_weights, whole_twin
from gtpo_lit.sharding.wrap import WrapOptions, load_wrapped
from gtpo_lit.whole import is_sharded

__all__ = [
    "COMPUTE_DTYPES",
    "ShardOptions",
    "WrapOptions",
    "check_tensor_parallel",
    "clip_gradients",
    "copy_weights",
    "gradient_norm",
    "is_sharded",
    "load_sharded",
    "load_wrapped",
    "whole_twin",
]

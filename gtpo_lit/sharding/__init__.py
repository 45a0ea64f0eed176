"""A policy split over ranks: by FSDP2, by tensor parallelism, or by both."""

from gtpo_lit.sharding.gradients import clip_gradients, gradient_norm
from gtpo_lit.sharding.shard import ShardOptions, is_sharded, load_sharded
from gtpo_lit.sharding.tensor_parallel import check_tensor_parallel
from gtpo_lit.sharding.twin import copy_weights, whole_twin

__all__ = [
    "ShardOptions",
    "check_tensor_parallel",
    "clip_gradients",
    "copy_weights",
    "gradient_norm",
    "is_sharded",
    "load_sharded",
    "whole_twin",
]

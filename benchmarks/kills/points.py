"""Where a run is killed: functions of the product, patched from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Accept = Callable[[tuple[Any, ...]], bool]


@dataclass(frozen=True, kw_only=True)
class Point:
    """One function, and the side of it on which the process dies."""

    target: str
    """`module:attribute.path` of what is patched."""
    when: Literal["before", "after"]
    accept: Accept = lambda arguments: True
    """Whether a call with these arguments counts."""
    sharded: bool = False
    """Whether only sharded checkpoints come by."""
    first_rank: bool = False
    """Whether no rank but the first comes by."""


def _to_checkpoint(arguments: tuple[Any, ...]) -> bool:
    return str(arguments[1]).endswith(".ckpt")


def _checkpoint(arguments: tuple[Any, ...]) -> bool:
    return ".ckpt" in str(arguments[0]) or "checkpoints" in str(arguments[0])


def _metrics(arguments: tuple[Any, ...]) -> bool:
    return "metrics.csv" in str(arguments[0])


_SAMPLE = "gtpo_lit.sampling.transformers:TransformersSampler.generate"
_VALIDATION = "gtpo_lit.module:PolicyModule.validation_step"
_SHARD = "gtpo_lit.sharding.shard_writer:ShardWriter.write_data"

POINTS: dict[str, Point] = {
    "sampling: before": Point(target=_SAMPLE, when="before"),
    "sampling: after": Point(target=_SAMPLE, when="after"),
    "scoring: before": Point(target="gtpo_lit.rollout.collector:score", when="before"),
    "scoring: after": Point(target="gtpo_lit.rollout.collector:score", when="after"),
    "training: before": Point(target="gtpo_lit.module:PolicyModule.training_step", when="before"),
    "training: after": Point(target="gtpo_lit.module:PolicyModule.training_step", when="after"),
    "optimiser: after": Point(target="torch.optim:AdamW.step", when="after"),
    "validation: before": Point(target=_VALIDATION, when="before"),
    "validation: after": Point(target=_VALIDATION, when="after"),
    "row: before": Point(
        target="gtpo_lit.run_checkpoint:commit_row", when="before", first_rank=True
    ),
    "row: after": Point(target="gtpo_lit.run_checkpoint:commit_row", when="after", first_rank=True),
    "csv: before rename": Point(
        target="gtpo_lit.metrics_csv:os.replace", when="before", accept=_metrics, first_rank=True
    ),
    "csv: after rename": Point(
        target="gtpo_lit.metrics_csv:os.replace", when="after", accept=_metrics, first_rank=True
    ),
    "checkpoint: before write": Point(target="torch:save", when="before", first_rank=True),
    "checkpoint: after write": Point(target="torch:save", when="after", first_rank=True),
    "checkpoint: before sync": Point(
        target="gtpo_lit.durable:sync", when="before", accept=_checkpoint, first_rank=True
    ),
    "checkpoint: after sync": Point(
        target="gtpo_lit.durable:sync", when="after", accept=_checkpoint, first_rank=True
    ),
    "checkpoint: before rename": Point(
        target="os:replace", when="before", accept=_to_checkpoint, first_rank=True
    ),
    "checkpoint: after rename": Point(
        target="os:replace", when="after", accept=_to_checkpoint, first_rank=True
    ),
    "checkpoint: before old ones go": Point(
        target="gtpo_lit.run_checkpoint:RunCheckpoint._remove_old", when="before", first_rank=True
    ),
    "checkpoint: after old ones go": Point(
        target="gtpo_lit.run_checkpoint:RunCheckpoint._remove_old", when="after", first_rank=True
    ),
    "shards: before": Point(target=_SHARD, when="before", sharded=True),
    "shards: between": Point(target=_SHARD, when="after", sharded=True),
    "summary: before": Point(
        target="gtpo_lit.run_folder:RunFolder.write_summary", when="before", first_rank=True
    ),
}
"""By name, in the order in which a step comes by them."""

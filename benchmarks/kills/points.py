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


def _to_checkpoint(arguments: tuple[Any, ...]) -> bool:
    return str(arguments[1]).endswith(".ckpt")


def _checkpoint(arguments: tuple[Any, ...]) -> bool:
    return ".ckpt" in str(arguments[0]) or "checkpoints" in str(arguments[0])


def _metrics(arguments: tuple[Any, ...]) -> bool:
    return "metrics.csv" in str(arguments[0])


_SAMPLE = "gtpo_lit.sampling.transformers:TransformersSampler.generate"
_VALIDATION = "gtpo_lit.module:PolicyModule.validation_step"
_SHARD = "torch.distributed.checkpoint:FileSystemWriter.write_data"

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
    "row: before": Point(target="gtpo_lit.run_checkpoint:commit_row", when="before"),
    "row: after": Point(target="gtpo_lit.run_checkpoint:commit_row", when="after"),
    "csv: before rename": Point(
        target="gtpo_lit.metrics_csv:os.replace", when="before", accept=_metrics
    ),
    "csv: after rename": Point(
        target="gtpo_lit.metrics_csv:os.replace", when="after", accept=_metrics
    ),
    "checkpoint: before write": Point(target="torch:save", when="before"),
    "checkpoint: after write": Point(target="torch:save", when="after"),
    "checkpoint: before sync": Point(
        target="gtpo_lit.durable:sync", when="before", accept=_checkpoint
    ),
    "checkpoint: after sync": Point(
        target="gtpo_lit.durable:sync", when="after", accept=_checkpoint
    ),
    "checkpoint: before rename": Point(target="os:replace", when="before", accept=_to_checkpoint),
    "checkpoint: after rename": Point(target="os:replace", when="after", accept=_to_checkpoint),
    "checkpoint: before old ones go": Point(
        target="gtpo_lit.run_checkpoint:RunCheckpoint._remove_old", when="before"
    ),
    "shards: before": Point(target=_SHARD, when="before", sharded=True),
    "shards: between": Point(target=_SHARD, when="after", sharded=True),
    "summary: before": Point(target="gtpo_lit.run_folder:RunFolder.write_summary", when="before"),
}
"""By name. The engine alone is killed only where there is one: see docs/resume.md."""

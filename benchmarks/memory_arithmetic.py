"""What a run takes of memory and disk, by arithmetic: the tables of docs/scale.md.

    python -m benchmarks.memory_arithmetic
    python -m benchmarks.memory_arithmetic --gpus 16 --rows 1

Nothing is measured and nothing loaded: sizes follow from the numbers in a model's config.json,
under FSDP2 with weights, gradients and AdamW's two moments in float32. 1 GB is 10^9 bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence

from benchmarks.model_memory import (
    BFLOAT16,
    FLOAT32,
    LORA_RANK,
    MODELS,
    PROMPT,
    RESPONSE,
    Layout,
    checkpoint,
    head,
    passing,
    pinned,
    resident,
    ways,
    whole_gradients,
)


def training_table(layout: Layout, *, autocast: bool) -> str:
    """GB on each GPU while training, part by part, with their sums."""
    columns = []
    for model in MODELS:
        parts, moment = resident(model, layout), passing(model, layout, autocast=autocast)
        stays, total = sum(parts.values()), sum(parts.values()) + sum(moment.values())
        columns.append(
            {
                **parts,
                "stays between steps": stays,
                **moment,
                "sum": total,
                f"left of {layout.gigabytes} GB": layout.gigabytes * 1e9 - total,
                "beside it, whole gradients, where they wait to be reduced": whole_gradients(model),
                "beside it, all logits, with chunk_size null": head(model, layout.rows * RESPONSE)
                - head(model, layout.chunk),
            }
        )
    return _table("GB on each GPU", columns)


def ways_table(layout: Layout) -> str:
    """GB on each GPU for the ways of a mini-batch of 32 problems with 16 answers each."""
    columns = [ways(model, layout, 32 * 16) for model in MODELS]
    return _table("a mini-batch of 512, GB on each GPU", columns)


def sampling_table(layout: Layout) -> str:
    """Sizes of vLLM's part."""
    columns = []
    for model in MODELS:
        token = model.kv_cache()
        columns.append(
            {
                "weights, bfloat16, GB": 2 * model.parameters / 1e9,
                "keys and values of a token, kB": token / 1e3,
                "of a full sequence, GB": token * (PROMPT + RESPONSE) / 1e9,
                "of a GPU's part of 2048 full sequences, GB": token
                * (PROMPT + RESPONSE)
                * 2048
                / layout.gpus
                / 1e9,
            }
        )
    return _table("vLLM", columns, scale=1.0)


def storage_table(layout: Layout) -> str:
    """Sizes of checkpoints, largest tensors and pinned memory."""
    columns = []
    for model in MODELS:
        adapters = model.lora(LORA_RANK)
        columns.append(
            {
                "checkpoint with AdamW, float32": checkpoint(model),
                "of it on each rank, where sharded": checkpoint(model) / layout.gpus,
                "exported policy, bfloat16": BFLOAT16 * float(model.parameters),
                f"checkpoint of LoRA {LORA_RANK} with AdamW": 3 * FLOAT32 * float(adapters),
                "largest tensor, float32": FLOAT32 * float(model.embedding),
                "whole model on rank 0 while loading, float32": FLOAT32 * float(model.parameters),
                "pinned on each node, CPU offload": pinned(model, layout),
                "moments on each node, CPU offload": pinned(model, layout),
            }
        )
    return _table("GB", columns)


def idle_share(mean: float, longest: float, sampling: float) -> float:
    """Share of a step in which an average sampling slot stands idle.

    Slots start together and none is refilled; `sampling` is sampling's share of the step.
    """
    return sampling * (1 - mean / longest)


def tail_table() -> str:
    """How much of a synchronous step is waited away for its longest answer."""
    shares = (0.5, 0.6, 0.7, 0.8)
    lines = [
        f"| mean length of {RESPONSE} | " + " | ".join(f"sampling {s:.0%}" for s in shares) + " |",
        "|---" * (len(shares) + 1) + "|",
    ]
    for mean in (512, 1024, 2048):
        idle = " | ".join(f"{idle_share(mean, RESPONSE, share):.0%}" for share in shares)
        lines.append(f"| {mean} | {idle} |")
    return "\n".join(lines)


def _table(title: str, columns: Sequence[dict[str, float]], scale: float = 1e9) -> str:
    names = [model.name for model in MODELS]
    lines = [f"| {title} | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for row in columns[0]:
        cells = " | ".join(_digits(column[row] / scale) for column in columns)
        lines.append(f"| {row} | {cells} |")
    return "\n".join(lines)


def _digits(value: float) -> str:
    return (
        f"{value:.0f}"
        if abs(value) >= 100
        else f"{value:.2f}"
        if abs(value) < 10
        else f"{value:.1f}"
    )


def tables(layout: Layout) -> Iterable[str]:
    """All tables, in the order of docs/scale.md."""
    yield training_table(layout, autocast=False)
    yield training_table(layout, autocast=True)
    yield ways_table(layout)
    yield sampling_table(layout)
    yield storage_table(layout)
    yield tail_table()


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Layout()
    parser.add_argument("--gpus", type=int, default=default.gpus, help="in all")
    parser.add_argument("--node", type=int, default=default.node, help="on each node")
    parser.add_argument("--gigabytes", type=int, default=default.gigabytes, help="of each GPU")
    parser.add_argument("--rows", type=int, default=default.rows, help="sequences in a micro-batch")
    parser.add_argument("--chunk", type=int, default=default.chunk, help="rows of logits at a time")
    print("\n\n".join(tables(Layout(**vars(parser.parse_args())))))


if __name__ == "__main__":
    main()

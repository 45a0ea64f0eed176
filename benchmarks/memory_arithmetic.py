"""What a run takes of memory and disk, by arithmetic: the tables of docs/scale.md.

    python -m benchmarks.memory_arithmetic
    python -m benchmarks.memory_arithmetic --gpus 16 --rows 1

Nothing is measured and nothing loaded: sizes follow from the numbers in a model's config.json,
under FSDP2 with weights, gradients and AdamW's two moments in float32. 1 GB is 10^9 bytes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

FLOAT32, BFLOAT16 = 4, 2
PROMPT, RESPONSE = 2048, 4096
LORA_RANK = 32
"""An example of a rank."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """The numbers of a Qwen2 model: biases on q, k and v, a gated MLP, two norms a block."""

    name: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_size: int = 128
    vocab: int = 152064

    @property
    def kv_width(self) -> int:
        """Numbers in the keys of one token and block."""
        return self.kv_heads * self.head_size

    @property
    def block(self) -> int:
        """Parameters of one block."""
        width = self.heads * self.head_size
        attention = 2 * self.hidden * width + width + 2 * (self.hidden + 1) * self.kv_width
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def embedding(self) -> int:
        """Parameters of the embedding, and as many of the head: they are not tied."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.layers * self.block + 2 * self.embedding + self.hidden

    def lora(self, rank: int) -> int:
        """Parameters of adapters of this rank on all seven linear maps of every block."""
        width = self.heads * self.head_size
        attention = 2 * (self.hidden + width) + 2 * (self.hidden + self.kv_width)
        return self.layers * rank * (attention + 3 * (self.hidden + self.intermediate))

    def saved_in_block(self, *, autocast: bool) -> int:
        """Bytes that one block keeps for its backward, for each token.

        Of a width H, KV and I: 20 H + 4 KV + 8 I where all is bfloat16; autocast leaves residual
        and norms in float32, 30 H in place of 20 H. Four bytes for each head and eight for the
        norms are the rest. The unit test counts them in transformers' own block.
        """
        widths = (30 if autocast else 20) * self.hidden + 4 * self.kv_width + 8 * self.intermediate
        return widths + 4 * self.heads + 8

    def kv_cache(self) -> int:
        """Bytes of keys and values in bfloat16, for each token."""
        return 2 * self.layers * self.kv_width * BFLOAT16


QWEN_7B = Model(name="Qwen2.5-7B", layers=28, hidden=3584, intermediate=18944, heads=28, kv_heads=4)
QWEN_32B = Model(
    name="Qwen2.5-32B", layers=64, hidden=5120, intermediate=27648, heads=40, kv_heads=8
)
MODELS = (QWEN_7B, QWEN_32B)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How many GPUs, and what each of them computes at a time."""

    gpus: int = 64
    node: int = 8
    """GPUs of a node."""
    gigabytes: int = 80
    """Memory of a GPU."""
    rows: int = 2
    """Sequences in a micro-batch."""
    chunk: int = 256
    """Rows of the head's logits at a time: `model.policy.chunk_size`."""

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch whose prompts and responses are all of full length."""
        return self.rows * (PROMPT + RESPONSE)


def resident(model: Model, layout: Layout) -> dict[str, float]:
    """Bytes on each GPU that are there from step to step."""
    shard = model.parameters / layout.gpus
    return {
        "weights, float32": FLOAT32 * shard,
        "gradients, float32": FLOAT32 * shard,
        "AdamW's two moments, float32": 2 * FLOAT32 * shard,
    }


def gathered(model: Model, width: int) -> float:
    """Bytes of whole weights at a time: embedding, head, last norm and two blocks.

    The root holds embedding and head through all of a forward; the next block is gathered while
    one computes.
    """
    return width * (2 * model.embedding + model.hidden + 2 * model.block)


def head(model: Model, rows: int) -> float:
    """Bytes for the logits of `rows` rows: four copies in float32, as softmax and entropy need."""
    return 4 * FLOAT32 * rows * model.vocab


def passing(model: Model, layout: Layout, *, autocast: bool) -> dict[str, float]:
    """Bytes on each GPU at the worst moment of a micro-batch, its backward's start."""
    width = FLOAT32 if autocast else BFLOAT16
    found = {
        "gathered weights": gathered(model, width),
        "inputs of all blocks": width * layout.tokens * model.layers * model.hidden,
        "one block computed again": float(layout.tokens * model.saved_in_block(autocast=autocast)),
        f"logits of {layout.chunk} rows": head(model, layout.chunk),
        "head and its gradient, float32": 2 * FLOAT32 * float(model.embedding),
    }
    if autocast:
        found["autocast's copy of all weights"] = BFLOAT16 * float(model.parameters)
    return found


def whole_gradients(model: Model) -> float:
    """Bytes on each GPU where gradients are reduced once an optimiser step, not each backward."""
    return FLOAT32 * float(model.parameters)


def ways(model: Model, layout: Layout, sequences: int) -> dict[str, float]:
    """Bytes on each GPU for ways to compute a mini-batch of `sequences`.

    With tensor parallelism each GPU holds its part of every block; embedding and head are whole on
    all of them, and sharded over the data-parallel ranks alone. There are as many parts as key
    heads, which is as far as they split, or a node's GPUs.
    """
    parts = min(model.kv_heads, layout.node)
    at_once = replace(layout, rows=sequences // layout.gpus)
    root = 2 * model.embedding + model.hidden
    part = (model.parameters - root) / parts + root
    stays, moment = sum(resident(model, layout).values()), passing(model, layout, autocast=False)
    now = stays + sum(moment.values())
    moment["gathered weights"] = BFLOAT16 * (root + 2 * model.block / parts)
    rows = f"micro-batches of {layout.rows}"
    return {
        f"{rows}, reduced once": now + whole_gradients(model),
        f"{rows}, reduced after each": now,
        f"1 micro-batch of {at_once.rows}": stays
        + sum(passing(model, at_once, autocast=False).values()),
        f"{rows}, tensor parallel by key heads, reduced once": 4
        * FLOAT32
        * part
        * parts
        / layout.gpus
        + sum(moment.values())
        + FLOAT32 * part,
    }


def checkpoint(model: Model) -> float:
    """Bytes of a checkpoint: weights and AdamW's moments in float32."""
    return 3 * FLOAT32 * float(model.parameters)


def pinned(model: Model, layout: Layout) -> float:
    """Bytes of pinned memory on each node with CPU offload: weights and gradients of its GPUs."""
    return 2 * FLOAT32 * model.parameters * layout.node / layout.gpus


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

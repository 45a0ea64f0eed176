"""What models, gradients and activations take of a GPU's memory, in bytes."""

from __future__ import annotations

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

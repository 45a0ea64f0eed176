"""LoRA as an option of the policy: which layers get adapters, and of what size."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

OPTION = "model.policy.lora"
HINT = f"{OPTION} needs peft, which is not installed: pip install 'gtpo-lit[lora]'"


@dataclass(frozen=True, kw_only=True)
class LoRA:
    """Low-rank adapters (arXiv 2106.09685): y = W x + alpha / rank * B A x, with W frozen.

    A starts random and B at 0, so that the adapted policy starts as its base.

    Args:
        rank: rows of A and columns of B.
        alpha: the update is scaled by alpha / rank.
        dropout: share of A's inputs that is dropped in passes with gradient; scores are
            taken without.
        target_modules: linear layers by the end of their names, such as `q_proj`; null
            takes all but the head.
        seed: of the initial A; null takes the run's, which `seed_everything` sets.
    """

    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: tuple[str, ...] | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError on values that no model could make right, naming option and value."""
        for name, good, rule in (
            ("rank", self.rank >= 1, "at least 1"),
            ("alpha", 0 < self.alpha < math.inf, "above 0 and finite"),
            ("dropout", 0 <= self.dropout < 1, "at least 0 and below 1"),
            ("target_modules", self.target_modules != (), "null, or at least one name"),
            ("seed", self.seed is None or 0 <= self.seed < 2**64, "from 0 to 2**64 - 1"),
        ):
            if not good:
                raise ValueError(f"{OPTION}.{name} must be {rule}, got {getattr(self, name)!r}")

    def meaning(self) -> dict[str, Any]:
        """What a resume must not change, as plain values."""
        targets = self.target_modules
        return {
            "rank": self.rank,
            "alpha": self.alpha,
            "dropout": self.dropout,
            "target_modules": None if targets is None else sorted(targets),
        }

    def targets(self, model: PreTrainedModel) -> list[str]:
        """Full names of the linear layers of `model` that get adapters, in the model's order.

        A model without memory ("meta") will do.

        Raises:
            ValueError: peft is not installed, a name matches no linear layer, or it is that of
                the head or of an embedding.
        """
        from torch import nn

        if importlib.util.find_spec("peft") is None:
            raise ValueError(HINT)
        ends = (model.get_input_embeddings(), model.get_output_embeddings())
        modules = dict(model.named_modules())
        outer = [name for name, module in modules.items() if any(module is end for end in ends)]
        linear = [
            name
            for name, module in modules.items()
            if isinstance(module, nn.Linear) and name not in outer
        ]
        for wanted in self.target_modules or ():
            if any(_ends_with(name, wanted) for name in outer):
                raise ValueError(
                    f"{OPTION}.target_modules: {wanted!r} is the model's embedding or output "
                    f"head; those get no adapters. There are {_short(linear)}"
                )
            if not any(_ends_with(name, wanted) for name in linear):
                raise ValueError(
                    f"{OPTION}.target_modules: no linear layer is called {wanted!r}; there are "
                    f"{_short(linear)}"
                )
        if not linear:
            raise ValueError(f"{OPTION}: {type(model).__name__} has no linear layer but its head")
        if self.target_modules is None:
            return linear
        chosen = self.target_modules
        return [name for name in linear if any(_ends_with(name, wanted) for wanted in chosen)]


def _ends_with(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith(f".{wanted}")


def _short(names: list[str]) -> list[str]:
    return sorted({name.rsplit(".", 1)[-1] for name in names})

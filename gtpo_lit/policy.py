"""A causal language model that scores sequences: log-probs and full-vocabulary entropies."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gtpo_lit.functional.logprob import linear_logprob_entropy, logits_logprob_entropy

# Models that change their logits after the head; these are scored from the logits themselves.
LOGIT_CHANGES = ("final_logit_softcapping", "logits_scaling", "logit_scale")


class CausalPolicy(nn.Module):
    """Wraps a transformers model with its tokenizer.

    Dropout is off for good, so that the log-probs of a training step are those of scoring.

    Attributes:
        end_token_ids: every token that ends a response, from the generation config, the model's
            config and the tokenizer.

    Args:
        model: any causal language model.
        tokenizer: its tokenizer.
        chunk_size: tokens whose logits exist at a time; all if not given.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        chunk_size: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.chunk_size = chunk_size
        config = model.config.get_text_config()
        generation = getattr(model, "generation_config", None)
        self.end_token_ids = _distinct(
            getattr(generation, "eos_token_id", None), config.eos_token_id, tokenizer.eos_token_id
        )
        self.max_positions: int | None = getattr(config, "max_position_embeddings", None)
        self._changes_logits = any(
            getattr(config, name, None) not in (None, 1, 1.0) for name in LOGIT_CHANGES
        )
        for name in ("attention_dropout", "hidden_dropout", "resid_pdrop", "attn_pdrop"):
            if hasattr(config, name):
                setattr(config, name, 0.0)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(getattr(module, "attention_dropout", None), float):
                setattr(module, "attention_dropout", 0.0)  # noqa: B010 (no plain attribute)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_length: int,
        *,
        temperature: float = 1.0,
    ) -> tuple[Tensor, Tensor]:
        """Score the last `response_length` tokens of every row.

        Args:
            input_ids: [B, L] int64, prompts left-padded.
            attention_mask: [B, L] bool; position ids count its true entries.
            response_length: T, less than L.
            temperature: divides the logits.

        Returns:
            Two [B, T] tensors, float32 or better, in nats: the log-prob of each token and the
            entropy of the distribution that it was drawn from. What stands at padded positions
            means nothing.
        """
        arguments = {
            "input_ids": input_ids[:, :-1],
            "attention_mask": attention_mask[:, :-1].long(),
            "position_ids": position_ids(attention_mask)[:, :-1],
            "use_cache": False,
        }
        targets = input_ids[:, -response_length:]
        if self._changes_logits:
            logits = self.model(**arguments, logits_to_keep=response_length).logits
            return logits_logprob_entropy(
                logits[:, -response_length:], targets, temperature=temperature
            )
        hidden = self.model.base_model(**arguments).last_hidden_state[:, -response_length:]
        head = self.model.get_output_embeddings()
        return linear_logprob_entropy(
            hidden,
            head.weight,
            targets,
            bias=getattr(head, "bias", None),
            temperature=temperature,
            chunk_size=self.chunk_size,
        )

    def architecture(self) -> str:
        """A hash of the names and shapes of all parameters."""
        shapes = [(name, tuple(value.shape)) for name, value in self.model.named_parameters()]
        return hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]

    def fingerprint(self) -> str:
        """A hash of the names, types, shapes and values of all parameters."""
        digest = hashlib.sha256()
        for name, value in self.model.named_parameters():
            flat = value.detach().cpu().contiguous().view(-1)
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that `AutoModelForCausalLM.from_pretrained` loads, all of it or none.

        Raises:
            FileExistsError: if the folder exists already.
        """
        target = Path(folder)
        if target.exists():
            raise FileExistsError(f"{target} exists already")
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
        try:
            self.model.save_pretrained(partial)
            self.tokenizer.save_pretrained(partial)
            partial.chmod(0o755)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def position_ids(attention_mask: Tensor) -> Tensor:
    """[B, L] positions that count real tokens from 0, so that left padding shifts nothing.

    Example:
        >>> position_ids(torch.tensor([[False, True, True]]))
        tensor([[0, 0, 1]])
    """
    return (attention_mask.long().cumsum(dim=1) - 1).clamp(min=0)


def _distinct(*sources: Any) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for source in sources:
        values: Iterable[int] = source if isinstance(source, (list, tuple)) else [source]
        found |= dict.fromkeys(value for value in values if value is not None)
    return tuple(found)

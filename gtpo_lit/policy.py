"""The policy: a causal language model that scores the responses it is given."""

from __future__ import annotations

import inspect
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gtpo_lit.eval_mode import eval_mode
from gtpo_lit.functional.logprob import (
    linear_logprob,
    linear_logprob_entropy,
    logits_logprob,
    logits_logprob_entropy,
)
from gtpo_lit.policy_adapters import adapted_layers, merged_state
from gtpo_lit.policy_head import head_is_plain, output_head
from gtpo_lit.policy_identity import fingerprint
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.whole import is_sharded

if TYPE_CHECKING:  # transformers takes seconds to import
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from transformers.cache_utils import Cache

__all__ = ["CausalPolicy", "PolicySpec", "head_is_plain"]


class CausalPolicy(nn.Module):
    """A causal LM with its tokenizer: log-probs and full-vocabulary entropies of responses.

    Padding is known from attention masks and lengths alone, never from token values, so the
    padding token may be an end token.

    Attributes:
        model: the Hugging Face model.
        tokenizer: its tokenizer.
        end_token_ids: every token that ends a response; those of the generation config, the
            model config and the tokenizer together.
        pad_token_id: what fills a batch; the tokenizer's, else an end token, else 0.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        chunk_size: int | None = None,
        plain_head: bool | None = None,
    ) -> None:
        """Wrap `model`.

        Args:
            model: the Hugging Face model.
            tokenizer: its tokenizer.
            chunk_size: rows that the head takes at a time.
            plain_head: what `has_plain_head` is to say, for a model that cannot be asked; found
                out when first needed if not given.
        """
        super().__init__()
        self.model = model
        self.tokenizer = tokenizer
        self.chunk_size = chunk_size
        self.end_token_ids = _end_token_ids(model, tokenizer)
        pad = tokenizer.pad_token_id
        self.pad_token_id: int = (*self.end_token_ids, 0)[0] if pad is None else pad
        self._plain_head = plain_head
        self._accepted = frozenset(inspect.signature(model.forward).parameters)

    @property
    def max_positions(self) -> int | None:
        """Longest sequence that the model has positions for; None if it sets no limit."""
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return None if limit is None else int(limit)

    @property
    def device(self) -> torch.device:
        """Where it computes; sharded weights may rest elsewhere."""
        weight: Any = next(self.parameters())
        mesh = getattr(weight, "device_mesh", None)
        if mesh is None or mesh.device_type == "cpu":
            return torch.device(weight.device)
        return torch.device(mesh.device_type, torch.cuda.current_device())

    @property
    def is_sharded(self) -> bool:
        """Whether some weight is split over ranks."""
        return is_sharded(self.model)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        response_length: int,
        *,
        temperature: float = 1.0,
        with_entropy: bool = True,
    ) -> tuple[Tensor, Tensor | None]:
        """Score the last T = `response_length` tokens of every row.

        Args:
            input_ids: [B, L] int64, prompts left-padded, responses right-padded.
            attention_mask: [B, L] bool, true on every real token; positions count those.
            response_length: T, below L.
            temperature: of the softmax, above 0.
            with_entropy: whether to compute entropies; the log-probs are the same to the bit.

        Returns:
            Log-probs [B, T] and full-vocabulary entropies [B, T] in nats, in float32, both with
            gradient and 0 where `attention_mask` is false; None in place of the entropies if they
            are not asked for.
        """
        assert 0 < response_length < input_ids.shape[1], (response_length, input_ids.shape)
        keep = attention_mask[:, -response_length:].bool()
        targets = input_ids[:, -response_length:][keep]
        # The token at t is predicted at t - 1.
        before = slice(-response_length - 1, -1)
        inputs = self._inputs(input_ids, attention_mask) | {"use_cache": False}
        if self.has_plain_head():
            hidden = self.model.base_model(**inputs).last_hidden_state[:, before][keep]
            head = output_head(self.model)
            score_rows = linear_logprob_entropy if with_entropy else linear_logprob
            # Autocast would compute the logits in half precision.
            with torch.autocast(hidden.device.type, enabled=False):
                values = score_rows(
                    hidden.to(head.weight.dtype),
                    head.weight,
                    targets,
                    bias=head.bias,
                    temperature=temperature,
                    chunk_size=self.chunk_size,
                )
        else:
            logits = self._output(inputs, response_length + 1).logits[:, before][keep]
            score_logits = logits_logprob_entropy if with_entropy else logits_logprob
            values = score_logits(logits, targets, temperature=temperature)
        logp, entropy = values if isinstance(values, tuple) else (values, None)
        empty = logp.new_zeros(keep.shape)
        return (
            empty.masked_scatter(keep, logp),
            None if entropy is None else empty.masked_scatter(keep, entropy),
        )

    def next_token_logits(
        self, input_ids: Tensor, attention_mask: Tensor, cache: Cache | None = None
    ) -> tuple[Tensor, Cache | None]:
        """Logits of the token after each row, and the cache that saves work at the next call.

        Args:
            input_ids: [B, L] int64, left-padded. With a cache only the last token is read.
            attention_mask: [B, L] bool, of all tokens, those in the cache too.
            cache: what the call for the first L - 1 tokens returned.

        Returns:
            Logits [B, V] in float32, and a cache (None from a model that offers none).
        """
        inputs = self._inputs(input_ids, attention_mask) | {"use_cache": True}
        if cache is not None:
            inputs["past_key_values"] = cache
            for name in ("input_ids", "position_ids"):
                if name in inputs:
                    inputs[name] = inputs[name][:, -1:]
        if self.has_plain_head():
            output = self.model.base_model(**inputs)
            head, hidden = output_head(self.model), output.last_hidden_state[:, -1].float()
            bias = None if head.bias is None else head.bias.float()
            with torch.autocast(hidden.device.type, enabled=False):
                logits = nn.functional.linear(hidden, head.weight.float(), bias)
        else:
            output = self._output(inputs, 1)
            logits = output.logits[:, -1].float()
        return logits, getattr(output, "past_key_values", None)

    def has_plain_head(self) -> bool:
        """Whether logits are just the head's linear map (see `head_is_plain`)."""
        if self._plain_head is None:
            with eval_mode(self.model):
                self._plain_head = head_is_plain(self.model)
        return self._plain_head

    def fingerprint(self, *, base: bool = False) -> str:
        """SHA-256 over the name, dtype, shape and bytes of every parameter, as 64 hex digits.

        With `base`, adapters are left out: it is that of the same policy without them. A
        collective where the policy is sharded.
        """
        return fingerprint(self.model, base=base)

    def export(self, folder: str | os.PathLike[str]) -> None:
        """Write a Hugging Face folder that `AutoModelForCausalLM.from_pretrained` loads.

        The folder appears whole or not at all. Adapters are merged into the weights. Where the
        policy is sharded all ranks call this, and rank 0 writes.

        Raises:
            ValueError: `folder` exists and is not empty.
        """
        target = Path(folder)
        weights, writes = self._whole_weights()
        if not writes:
            return
        if target.exists() and any(target.iterdir()):
            raise ValueError(f"export folder {str(target)!r} exists and is not empty")
        part = target.parent / f".{target.name}.{os.getpid()}.part"
        part.mkdir(parents=True)
        try:
            self.model.save_pretrained(part, state_dict=weights)
            self.tokenizer.save_pretrained(part)
            part.replace(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def _whole_weights(self) -> tuple[dict[str, Tensor] | None, bool]:
        """What is to be saved, None for the model's own weights, and whether this rank saves."""
        first = not self.is_sharded or dist.get_rank() == 0
        if self.is_sharded or adapted_layers(self.model):
            return merged_state(self.model, keep=first), first
        return None, first

    def _inputs(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask.long()}
        # Models without positions of their own (ALiBi, state spaces) do not take them.
        if "position_ids" in self._accepted:
            inputs["position_ids"] = (inputs["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        return inputs

    @property
    def _network(self) -> nn.Module:
        """What computes: the model without a wrapper that gathers its weights."""
        return self.model

    def _output(self, inputs: dict[str, Any], positions: int) -> Any:
        """What the model itself returns, with logits of the last `positions` tokens at least."""
        if "logits_to_keep" in self._accepted:
            inputs = inputs | {"logits_to_keep": positions}
        return self._network(**inputs)


def _end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    sources = [model.generation_config, model.config.get_text_config(), tokenizer]
    found: list[int] = []
    for source in sources:
        value = getattr(source, "eos_token_id", None)
        found += value if isinstance(value, list | tuple) else [] if value is None else [value]
    return tuple(dict.fromkeys(found))

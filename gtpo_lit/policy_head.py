"""The output head of a causal LM, and whether it may be applied on its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:  # transformers takes seconds to import
    from transformers import PreTrainedModel


def output_head(model: PreTrainedModel) -> nn.Linear:
    """The module that turns hidden states into logits."""
    head: nn.Linear = model.get_output_embeddings()
    return head


@torch.no_grad()
def head_is_plain(model: PreTrainedModel) -> bool:
    """Whether the logits are just the head's linear map of the base model's last hidden states.

    Some models scale the hidden states or the logits, or cap the logits softly. What a model
    does is seen from one call on two tokens in which the head is made to return known numbers.
    """
    head, base = output_head(model), model.base_model
    if type(head) is not nn.Linear or base is model:
        return False
    seen: dict[str, Any] = {}

    def keep_hidden(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen["hidden"] = getattr(output, "last_hidden_state", None)

    def replace_logits(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        known = torch.linspace(-100, 100, output.shape[-1]).to(output).expand_as(output)
        seen["input"], seen["known"] = inputs[0], known
        return known.clone()

    hooks = [base.register_forward_hook(keep_hidden), head.register_forward_hook(replace_logits)]
    try:
        # Two tokens, since the embedding of a padding token may be zero.
        tokens = torch.arange(2, device=head.weight.device)[None]
        logits = model(input_ids=tokens, use_cache=False).logits
    finally:
        for hook in hooks:
            hook.remove()
    return (
        seen.get("hidden") is not None
        and torch.equal(seen["input"], seen["hidden"])
        and torch.equal(logits, seen["known"])
    )

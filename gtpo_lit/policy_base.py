"""The base of an adapted policy as a policy of its own, without weights of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_adapters import adapters_off
from gtpo_lit.policy_spec import PolicySpec


class BasePolicy(CausalPolicy):
    """Scores as a policy did before it got adapters: the reference of a KL term, for no memory.

    It shares the policy's model, and switches the adapters off while it scores.
    """

    def __init__(self, policy: CausalPolicy) -> None:
        super().__init__(policy.model, policy.tokenizer, chunk_size=policy.chunk_size)
        # In a list, so that this is not a module above the policy.
        self._adapted = [policy]
        self._fingerprint: str | None = None

    @torch.no_grad()
    def forward(self, *args: Any, **options: Any) -> tuple[Tensor, Tensor | None]:
        """As `CausalPolicy.forward`, without gradient."""
        with adapters_off(self.model):
            # By way of the policy, which may gather its weights when it is called.
            values: tuple[Tensor, Tensor | None] = self._adapted[0](*args, **options)
        return values

    def next_token_logits(self, *args: Any, **options: Any) -> Any:
        """As `CausalPolicy.next_token_logits`."""
        with adapters_off(self.model):
            return self._adapted[0].next_token_logits(*args, **options)

    def fingerprint(self, *, base: bool = True) -> str:
        """That of the model without adapters; computed once, since nothing changes a base."""
        if self._fingerprint is None:
            self._fingerprint = self._adapted[0].fingerprint(base=True)
        return self._fingerprint

    def meaning(self, spec: PolicySpec) -> dict[str, str]:
        """Where it comes from, and its fingerprint, as plain values."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        return {"path": spec.path, "dtype": dtype, "sha256": self.fingerprint()}


def refuse_other_base(saved: Mapping[str, str] | None, now: Mapping[str, str] | None) -> None:
    """Refuse adapters that were trained on another base.

    Args:
        saved: `BasePolicy.meaning` in the checkpoint; None if it holds whole weights.
        now: that of this run; None without LoRA.

    Raises:
        ValueError: naming both.
    """
    if saved is None and now is None:
        return
    if saved is None:
        raise ValueError(
            "model.policy.lora: the checkpoint holds whole weights and no adapters; leave lora "
            "out, or start anew from exported weights (model.policy.path)"
        )
    if now is None:
        raise ValueError(
            f"the checkpoint holds adapters of {_named(saved)} and no whole weights; give "
            "model.policy.lora as it was"
        )
    if saved["sha256"] != now["sha256"]:
        raise ValueError(
            f"model.policy.path: the checkpoint's adapters belong to {_named(saved)}, and this "
            f"run's base is another one, {_named(now)}"
        )


def _named(base: Mapping[str, str]) -> str:
    return f"{base['path']!r} in {base['dtype']} (SHA-256 {base['sha256'][:16]})"

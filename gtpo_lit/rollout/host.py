"""What a rollout needs from the module that it feeds, and what a resume must not change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec


class PolicyHost(Protocol):
    """The public side of a module that holds a policy and learns by an algorithm."""

    policy_spec: PolicySpec
    algorithm: Algorithm

    @property
    def policy(self) -> CausalPolicy:
        """The policy that is trained; there once `configure_model` has run."""

    @property
    def reference(self) -> CausalPolicy | None:
        """The policy with its initial weights, frozen; nothing where no KL term is asked for."""


class StepSource(Protocol):
    """The public numbers of the data side."""

    step_metrics: dict[str, float]

    @property
    def seconds(self) -> dict[str, float]:
        """Time of the parts of the current RL step on this rank."""


def check_counts(**counts: tuple[int | None, int]) -> None:
    """Refuse counts below the least that makes sense; None means that none is set.

    Args:
        counts: by option, the value and the least value.

    Raises:
        ValueError: naming option and value.
    """
    for name, (value, least) in counts.items():
        if value is not None and value < least:
            raise ValueError(f"data.{name} must be at least {least}, got {value}")


def refuse_changes(section: str, *, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Stop a resume whose settings would make it another run.

    Raises:
        ValueError: naming every option that differs, with both values.
    """
    changed = [
        f"{section}.{name} was {saved.get(name)!r}, is {now.get(name)!r}"
        for name in sorted({*saved, *now})
        if saved.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(
            "the checkpoint belongs to another run: " + "; ".join(changed) + ". Set it back, or "
            "start anew from exported weights (model.policy.path)"
        )

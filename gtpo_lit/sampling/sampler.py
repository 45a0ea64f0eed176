"""What a rollout needs from an engine that draws completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings


class Sampler(ABC):
    """Draws completions from the current policy.

    The caller pushes weights before it draws, with a version that grows by one at every change.

    Attributes:
        reports_logprobs: whether its completions carry the log-probs of their tokens.
    """

    reports_logprobs: bool = True

    @abstractmethod
    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Make `generate` draw from `policy` as it is now. Cheap if `version` is not new."""

    @abstractmethod
    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order."""

    def ask_for_entropies(self) -> None:
        """From now on, report `Completion.entropies`: full vocabulary, at the temperature, uncut.

        Raises:
            ValueError: the engine cannot tell them, as those that see only the likeliest tokens.
        """
        raise ValueError(
            f"data.entropy_source = 'sampler': {type(self).__name__} does not report entropies of "
            "the full vocabulary; use data.entropy_source: recompute"
        )

    def close(self) -> None:  # noqa: B027 (most engines hold nothing)
        """Give back what the engine holds."""

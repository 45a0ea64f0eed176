"""What a rollout needs from an engine that draws completions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings


class Sampler(ABC):
    """Draws completions from the current policy.

    The caller pushes weights before it draws, with a version that grows by one at every change.

    Attributes:
        reports_logprobs: whether its completions carry the log-probs of their tokens.
        version: of the weights that `generate` draws from; None if there are none.
    """

    reports_logprobs: bool = True
    version: int | None = None

    def check(  # noqa: B027 (most engines take what the settings allow)
        self, policy: PolicySpec, settings: Sequence[SamplingSettings]
    ) -> None:
        """Raise ValueError on what this engine cannot do, before any weights load."""

    def longest_prompt(self, policy: PolicySpec) -> int | None:
        """Longest prompt in tokens that leaves room for a response; None for no such limit.

        Problems with longer prompts are dropped when a run starts.
        """
        return None

    @abstractmethod
    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Make `generate` draw from `policy` as it is now. Cheap if `version` is not new."""

    @abstractmethod
    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        A request that the engine could not answer gets no completion at all, and a warning that
        names its prompt.
        """

    def reset_prefix_cache(self) -> None:  # noqa: B027 (most engines have none)
        """Forget what was computed for earlier prompts."""

    def rest(self) -> None:  # noqa: B027 (most engines hold nothing)
        """Give memory back to the training that follows; the next use is a push of weights."""

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

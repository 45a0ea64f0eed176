"""A problem source with its prompts rendered once, and the problems that each RL step draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from lightning.pytorch.utilities import rank_zero_info

from gtpo_lit.rollout.collector import Drawn
from gtpo_lit.tasks import ProblemSource, fit_prompts, overlap, step_indices
from gtpo_lit.types import Problem

LongPrompts = Literal["drop", "error"]


@dataclass(frozen=True, kw_only=True)
class ProblemStream:
    """The usable problems of a source, in source order."""

    problems: tuple[Problem, ...]
    prompts: tuple[tuple[int, ...], ...]
    """Token ids, as they are sampled from and trained on."""

    @classmethod
    def render(
        cls,
        source: ProblemSource,
        render_ids: Callable[[Problem], tuple[int, ...]],
        *,
        max_prompt_length: int | None,
        long_prompts: LongPrompts,
        option: str,
        limit: str = "data.max_prompt_length",
    ) -> ProblemStream:
        """Render every prompt of `source` once; what is dropped is said, by count.

        Args:
            source: the problems.
            render_ids: a problem's prompt as token ids.
            max_prompt_length: longest prompt in tokens, or no limit.
            long_prompts: drop what is longer, or stop.
            option: the option that the source was given by, for messages.
            limit: where `max_prompt_length` comes from, for messages.

        Raises:
            ValueError: if no problem is left, or if `long_prompts` is "error" and a prompt is
                longer than `max_prompt_length` tokens.
        """
        problems = [source.problem(index) for index in range(len(source))]
        prompts = [render_ids(problem) for problem in problems]
        kept, dropped = fit_prompts(prompts, max_prompt_length, long_prompts=long_prompts)
        if dropped:
            rank_zero_info(
                f"{option}: {dropped} of {len(problems)} problems dropped, their prompts are "
                f"longer than {limit} = {max_prompt_length} tokens"
            )
        if not kept:
            raise ValueError(f"{option} has no usable problem: {dropped} were dropped as too long")
        return cls(
            problems=tuple(problems[index] for index in kept),
            prompts=tuple(prompts[index] for index in kept),
        )

    def require(self, problems_per_step: int) -> None:
        """Refuse a source that cannot fill one RL step.

        Raises:
            ValueError: with both numbers.
        """
        if len(self) < problems_per_step:
            raise ValueError(
                f"data.problems has {len(self)} usable problem(s), but one RL step needs "
                f"data.problems_per_step = {problems_per_step}"
            )

    def __len__(self) -> int:
        return len(self.problems)

    def step(self, step: int, *, problems_per_step: int, seed: int) -> list[Drawn]:
        """The problems of RL step `step` (0-based): a function of (seed, step) alone."""
        indices = step_indices(len(self), problems_per_step, step, seed)
        return [self.drawn(index, place) for place, index in enumerate(indices)]

    def drawn(self, index: int, place: int) -> Drawn:
        """The problem at `index`, drawn at `place`."""
        return Drawn(problem=self.problems[index], prompt_ids=self.prompts[index], place=place)


def share_of(items: list[Drawn], *, rank: int, ranks: int) -> list[Drawn]:
    """The contiguous slice that a rank samples; slices cover every item exactly once."""
    return items[len(items) * rank // ranks : len(items) * (rank + 1) // ranks]


def refuse_overlap(train: ProblemSource, validation: Mapping[str, ProblemSource]) -> None:
    """Refuse to validate on what is trained on.

    Raises:
        ValueError: with the number of shared problems and one of them.
    """
    for name, source in validation.items():
        if shared := overlap(train, source):
            raise ValueError(
                f"data.problems and data.validation.{name} share {len(shared)} problem(s), for "
                f"example {shared[0]!r}"
            )

"""A problem source with its prompts rendered once, and the problems that each RL step draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lightning.pytorch.utilities import rank_zero_info

from gtpo_lit.rollout.collector import Drawn
from gtpo_lit.tasks import LongPrompts, ProblemSource, fit_prompts, overlap, walk
from gtpo_lit.types import Problem

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class ProblemStream:
    """The usable problems of a source, in source order."""

    problems: tuple[Problem, ...]
    prompts: tuple[tuple[int, ...], ...]
    """Token ids, as they are sampled from and trained on."""
    seed: int = 0
    """Decides the order in which `draw` walks the problems."""

    @classmethod
    def render(
        cls,
        source: ProblemSource,
        render_ids: Callable[[Problem], tuple[int, ...]],
        *,
        max_prompt_length: int | None,
        long_prompts: LongPrompts,
        option: str,
        seed: int = 0,
        limit: str = "data.max_prompt_length",
        cut_ids: Callable[[Problem, int], tuple[int, ...]] | None = None,
    ) -> ProblemStream:
        """Render every prompt of `source` once; what is dropped is said, by count.

        Args:
            source: the problems.
            render_ids: a problem's prompt as token ids.
            max_prompt_length: longest prompt in tokens, or no limit.
            long_prompts: drop what is longer, stop, or cut it by `cut_ids`.
            option: the option that the source was given by, for messages.
            seed: decides the order in which `draw` walks the problems.
            limit: where `max_prompt_length` comes from, for messages.
            cut_ids: a problem's prompt in at most so many tokens; "cut" needs it.

        Raises:
            ValueError: if no problem is left, or if `long_prompts` is "error" and a prompt is
                longer than `max_prompt_length` tokens.
        """
        problems = [source.problem(index) for index in range(len(source))]
        if note := source.note():
            rank_zero_info(f"{option}: {note}")
        prompts = [render_ids(problem) for problem in problems]
        if long_prompts == "cut" and cut_ids is not None and max_prompt_length is not None:
            long = [at for at, ids in enumerate(prompts) if len(ids) > max_prompt_length]
            for at in long:
                prompts[at] = cut_ids(problems[at], max_prompt_length)
            if long:
                rank_zero_info(
                    f"{option}: {len(long)} of {len(problems)} questions cut, their prompts are "
                    f"longer than {limit} = {max_prompt_length} tokens"
                )
        kept, dropped = fit_prompts(
            prompts,
            max_prompt_length,
            long_prompts="error" if long_prompts == "error" else "drop",
        )
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
            seed=seed,
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

    def draw(self, position: int, count: int, *, first_place: int = 0) -> list[Drawn]:
        """`count` problems of the endless walk over all from `position` on.

        They stand at `first_place` and the places behind it in their step.
        """
        indices = walk(len(self), position, count, self.seed)
        return [self.drawn(index, first_place + at) for at, index in enumerate(indices)]

    def drawn(self, index: int, place: int) -> Drawn:
        """The problem at `index`, drawn at `place`."""
        return Drawn(problem=self.problems[index], prompt_ids=self.prompts[index], place=place)


def share_of(items: Sequence[Item], *, rank: int, ranks: int) -> list[Item]:
    """The contiguous slice that a rank samples; slices cover every item exactly once."""
    return list(items)[len(items) * rank // ranks : len(items) * (rank + 1) // ranks]


def refuse_overlap(
    train: ProblemSource,
    validation: Mapping[str, ProblemSource],
    *,
    option: str = "data.validation",
) -> None:
    """Refuse to evaluate on what is trained on.

    Raises:
        ValueError: with the number of shared problems and one of them.
    """
    for name, source in validation.items():
        if shared := overlap(train, source):
            raise ValueError(
                f"data.problems and {option}.{name} share {len(shared)} problem(s), for "
                f"example {shared[0]!r}"
            )

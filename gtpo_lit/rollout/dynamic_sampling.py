"""Dynamic sampling: draw problems until a step is full of groups with both outcomes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from gtpo_lit.rollout.collector import Drawn
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.types import Graded

Sampled = tuple[Drawn, Graded]


@dataclass(frozen=True, kw_only=True)
class DynamicSampling:
    """Keep only groups that have right and wrong answers, and draw more until the step is full.

    Source: DAPO, arXiv 2503.14476, Eq. 11. Accuracy decides, never a shaped or penalised reward.

    Args:
        max_rounds: most rounds of sampling in a step; then the step goes on with fewer
            groups.
    """

    max_rounds: int = 10

    def __post_init__(self) -> None:
        if self.max_rounds < 1:
            raise ValueError(
                f"data.dynamic_sampling.max_rounds must be at least 1, got {self.max_rounds}"
            )


class Source(Protocol):
    """Where problems come from, in an endless fixed order."""

    def draw(self, position: int, count: int, *, first_place: int) -> list[Drawn]:
        """`count` problems from `position` on, at the places `first_place` and following."""


@dataclass(frozen=True, kw_only=True)
class Filled:
    """The groups of a step, the same on every rank."""

    groups: tuple[Sampled, ...]
    """The mixed groups in the order drawn; if there is none, the first group drawn."""
    position: int
    """Where the next step draws from: behind the last problem that this step used."""
    metrics: dict[str, float]
    """`train/drawn/...` numbers over everything that was sampled."""


def is_mixed(graded: Graded) -> bool:
    """Whether a group has right and wrong answers.

    >>> from gtpo_lit.types import Problem
    >>> problem = Problem(id="1", question="?", answer="!")
    >>> is_mixed(Graded(problem=problem, completions=(), reward=(1, 2), correct=(True, True)))
    False
    """
    return any(graded.correct) and not all(graded.correct)


def fill_step(
    source: Source,
    position: int,
    *,
    wanted: int,
    sample: Callable[[Sequence[Drawn]], Sequence[Sampled]],
    rule: DynamicSampling,
) -> Filled:
    """Sample rounds of problems until `wanted` groups are mixed or the rounds are used up.

    The first round draws `wanted` problems; later ones as many as are missing, divided by the share
    that was mixed so far, at most `wanted`. Mixed groups beyond the last place needed are not
    used: their problems are drawn again by the next step, with the policy as it is then, so that
    no problem is passed over and nothing stale is trained on.

    Args:
        source: the problems.
        position: where to draw from.
        wanted: groups in a full step.
        sample: this rank's graded groups of its contiguous share of the problems given, in order;
            problems that the engine could not answer are left out.
        rule: the bound.
    """
    groups: list[Sampled] = []
    mixed: list[Sampled] = []
    rounds = drawn = 0
    while len(mixed) < wanted and rounds < rule.max_rounds:
        count = _next_count(wanted, drawn=drawn, mixed=len(mixed))
        problems = source.draw(position + drawn, count, first_place=drawn)
        groups += [group for rank in all_gather(list(sample(problems))) for group in rank]
        mixed = [group for group in groups if is_mixed(group[1])]
        drawn += count
        rounds += 1
    used = mixed[:wanted]
    full = len(mixed) >= wanted
    return Filled(
        groups=tuple(used or groups[:1]),
        position=position + (used[-1][0].place + 1 if full else drawn),
        metrics={
            "train/drawn/rounds": float(rounds),
            "train/drawn/missing_groups": float(wanted - len(used)),
            "train/drawn/unused_groups": float(len(mixed) - len(used)),
            **_outcomes([item for _, item in groups]),
        },
    )


def _next_count(wanted: int, *, drawn: int, mixed: int) -> int:
    missing = wanted - mixed
    expected = -(-missing * drawn // mixed) if mixed else wanted
    return max(missing, min(wanted, expected))


def _outcomes(graded: Sequence[Graded]) -> dict[str, float]:
    groups = max(1, len(graded))
    samples = max(1, sum(len(item.correct) for item in graded))
    return {
        "train/drawn/groups": float(len(graded)),
        "train/drawn/mixed_fraction": sum(map(is_mixed, graded)) / groups,
        "train/drawn/all_correct_fraction": sum(all(item.correct) for item in graded) / groups,
        "train/drawn/all_wrong_fraction": sum(not any(item.correct) for item in graded) / groups,
        "train/drawn/correct_fraction": sum(sum(item.correct) for item in graded) / samples,
        "train/drawn/reward_mean": sum(sum(item.reward) for item in graded) / samples,
    }

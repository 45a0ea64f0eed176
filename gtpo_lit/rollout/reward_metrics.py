"""What is logged about the terms of the reward, and the alarm for those that say nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning.pytorch.utilities import rank_zero_warn

from gtpo_lit.types import Graded


@dataclass(frozen=True, kw_only=True, slots=True)
class TermScores:
    """The scores of one reward term over the completions of one rank or of several."""

    total: float
    count: int
    least: float
    most: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RewardReport:
    """What one rank's rewards said in a step."""

    terms: Mapping[str, TermScores]
    """By name of the term."""
    incidents: Mapping[str, int]
    """Completions by "<term>/<kind>", such as "math/timeouts"."""


def report(graded: Sequence[Graded]) -> RewardReport:
    """The reward terms over the completions of one rank."""
    scores: dict[str, list[float]] = {}
    incidents: dict[str, int] = {}
    for item in graded:
        for name, values in item.components.items():
            scores.setdefault(name, []).extend(values)
        for name, flags in item.incidents.items():
            incidents[name] = incidents.get(name, 0) + sum(flags)
    return RewardReport(
        terms={
            name: TermScores(total=sum(all_), count=len(all_), least=min(all_), most=max(all_))
            for name, all_ in scores.items()
            if all_
        },
        incidents=incidents,
    )


def merged(ranks: Sequence[RewardReport]) -> RewardReport:
    """The report over all ranks."""
    terms = {}
    for name in sorted({name for rank in ranks for name in rank.terms}):
        parts = [rank.terms[name] for rank in ranks if name in rank.terms]
        terms[name] = TermScores(
            total=sum(part.total for part in parts),
            count=sum(part.count for part in parts),
            least=min(part.least for part in parts),
            most=max(part.most for part in parts),
        )
    kinds = sorted({name for rank in ranks for name in rank.incidents})
    return RewardReport(
        terms=terms,
        incidents={name: sum(rank.incidents.get(name, 0) for rank in ranks) for name in kinds},
    )


def reward_metrics(step: RewardReport) -> dict[str, float]:
    """`train/reward/<term>/mean`, and the counts of what went wrong."""
    metrics = {
        f"train/reward/{name}/mean": scores.total / scores.count
        for name, scores in step.terms.items()
    }
    return metrics | {
        f"train/reward/{name}": float(number) for name, number in step.incidents.items()
    }


class ConstantRewards:
    """Counts the steps over which a reward term has given every completion one and the same score.

    Such a term teaches nothing: its parser may be broken, or the task solved.
    """

    def __init__(self, alarm: int) -> None:
        """Choose when to warn.

        Args:
            alarm: steps after which there is a warning, once for each term in a run.
        """
        self.alarm = alarm
        self._runs: dict[str, tuple[float, int]] = {}
        self._warned: set[str] = set()

    def update(self, step: RewardReport) -> dict[str, float]:
        """Take a step in; `train/reward/<term>/constant_steps`, 0 if it varied in this step."""
        metrics = {}
        for name, scores in step.terms.items():
            value, before = self._runs.get(name, (scores.least, 0))
            varied = scores.least != scores.most
            steps = 0 if varied else 1 + (before if value == scores.least else 0)
            self._runs[name] = (scores.least, steps)
            metrics[f"train/reward/{name}/constant_steps"] = float(steps)
            if steps >= self.alarm and name not in self._warned:
                self._warned.add(name)
                rank_zero_warn(
                    f"reward {name!r} has been {scores.least:g} for every completion of the last "
                    f"{steps} steps; it teaches nothing (train/reward/{name}/constant_steps)",
                    stacklevel=2,
                )
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs to count on."""
        return {"runs": dict(self._runs), "warned": sorted(self._warned)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Count on from `state`."""
        self._runs = {name: (value, steps) for name, (value, steps) in state["runs"].items()}
        self._warned = set(state["warned"])

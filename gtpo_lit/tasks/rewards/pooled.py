"""Rewards that are computed in worker processes, where they can be stopped."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from gtpo_lit.tasks.pool import Limits, Verdict, shared_pool
from gtpo_lit.tasks.rewards.reward import Marks, Reward

OnError = Literal["zero", "stop"]

INCIDENTS = {"timeouts": ("timeout",), "errors": ("error", "died", "memory")}
"""What is counted, and the verdicts that count."""

# One for all rewards: a reward must pickle.
_lock = threading.Lock()


class PooledReward(Reward):
    """Base class of rewards whose answers are judged in the pool, each within its limits.

    A judge that raises, dies or runs out of time or memory gives the answer 0; the first such
    failure of a reward is shown with its traceback, and the first time that it runs out of time.

    Attributes:
        counts: "timeouts" and "errors" since the reward was made.

    Args:
        limits: what judging one answer may cost.
        on_error: "zero", or "stop" to end the run when a judge raises. A timeout never does.
        workers: processes of its pool, which it shares with rewards that ask for as many; by
            default one a core, at most four.

    Raises:
        ValueError: if `on_error` is unknown, or `workers` below 1.
    """

    def __init__(
        self, limits: Limits, on_error: OnError = "zero", workers: int | None = None
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        if on_error not in get_args(OnError):
            raise ValueError(f"on_error must be one of {get_args(OnError)}, got {on_error!r}")
        self.limits = limits
        self.on_error: OnError = on_error
        self.workers = workers
        self.counts: Counter[str] = Counter(dict.fromkeys(INCIDENTS, 0))
        self._warned = False
        self._warned_late = False

    def judge_all(self, judge: str, jobs: Sequence[Mapping[str, Any] | float]) -> Marks:
        """Marks of the answers, in their order.

        Args:
            judge: import path of the judge, ``"package.module:function"``.
            jobs: its arguments for each answer, or a score that is known without it.
        """
        asked = [job for job in jobs if isinstance(job, Mapping)]
        verdicts = iter(shared_pool(self.workers).run(judge, asked, self.limits) if asked else ())
        every = [
            next(verdicts) if isinstance(job, Mapping) else Verdict("scored", job) for job in jobs
        ]
        marks = Marks(
            scores=[verdict.score for verdict in every],
            incidents={
                kind: [verdict.status in statuses for verdict in every]
                for kind, statuses in INCIDENTS.items()
            },
        )
        self._note(judge, every, marks)
        return marks

    def _note(self, judge: str, verdicts: Sequence[Verdict], marks: Marks) -> None:
        failed = next((each for each in verdicts if each.status in INCIDENTS["errors"]), None)
        late = any(marks.incidents["timeouts"])
        with _lock:
            for kind, flags in marks.incidents.items():
                self.counts[kind] += sum(flags)
            first = failed is not None and not self._warned
            self._warned = self._warned or first
            first_late = late and not self._warned_late
            self._warned_late = self._warned_late or late
        if first_late:
            warnings.warn(
                f"{type(self).__name__}: {judge!r} took longer than limits.seconds = "
                f"{self.limits.seconds:g} for an answer, which counts as 0; further ones are "
                "counted only",
                stacklevel=3,
            )
        if failed is None:
            return
        what = f"{type(self).__name__}: {judge!r} failed on an answer ({failed.status})"
        if self.on_error == "stop":
            raise RuntimeError(f"{what}: {failed.detail}")
        if first:
            warnings.warn(
                f"{what}, which counts as 0; further failures are counted only. {failed.detail}",
                stacklevel=3,
            )

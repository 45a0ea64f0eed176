"""The scorer that comes with each reasoning-gym task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gtpo_lit.tasks.answers import Extract, check_extract, extract_answer
from gtpo_lit.tasks.pool import Limits
from gtpo_lit.tasks.reasoning_gym_tasks import check_task
from gtpo_lit.tasks.rewards.pooled import OnError, PooledReward
from gtpo_lit.tasks.rewards.reward import Marks
from gtpo_lit.types import Problem

JUDGE = "gtpo_lit.judging.gym_task:judge"


class ReasoningGymReward(PooledReward):
    """What the task's own `score_answer` says about the answer found in the response.

    Only for problems of a `ReasoningGymSource`, whose metadata it reads.

    Some scorers (`n_queens`, `binary_matrix`, `spiral_matrix`, `string_insertion`, and the symbolic
    ones such as `countdown` and `simple_integration`) evaluate the answer as Python or as a
    formula. All run in worker processes, within the limits.
    """

    def __init__(
        self,
        binary: bool = True,
        extract: Extract = "answer_tag",
        require_think: bool = False,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        on_error: OnError = "zero",
        workers: int | None = None,
    ) -> None:
        r"""Choose how to score.

        Args:
            binary: whether a score below 1 counts as 0; partial credit is passed on if false.
            extract: where the answer stands: "answer_tag" (the last complete `<answer>` tag, which
                the prompt must ask for), "boxed" (the last complete `\boxed{}`), "last_number",
                "last_equals" (after the last `=`, or all if there is none) or "whole". Only what
                follows the last `</think>` is read.
            require_think: whether a response without `</think>` has no answer at all; for models
                whose prompt already opens `<think>`.
            limits: what judging one answer may cost.
            on_error: "zero", or "stop" to end the run if a worker fails. An answer that breaks the
                task's scorer is wrong, not an error.
            workers: processes that judge, shared with rewards that ask for as many; by default one
                a core, at most four.

        Raises:
            ValueError: if `extract` is unknown, or `workers` below 1.
        """
        super().__init__(limits, on_error, workers)
        check_extract(extract)
        self.binary = binary
        self.extract: Extract = extract
        self.require_think = require_think

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """Always an error: the scorers need whole problems, so call `grade`."""
        raise ValueError("ReasoningGymReward cannot score by answers alone; call grade(...)")

    def grade(self, completions: list[str], problems: Sequence[Problem]) -> list[float]:
        """One score for each completion; 0 where no answer is found.

        Raises:
            ValueError: for a problem of another source.
        """
        return list(self.mark(completions, problems).scores)

    def mark(self, completions: list[str], problems: Sequence[Problem]) -> Marks:
        """The scores, and which answers ran out of time or failed."""
        jobs = [
            self._job(completion, problem)
            for completion, problem in zip(completions, problems, strict=True)
        ]
        marks = self.judge_all(JUDGE, jobs)
        if not self.binary:
            return marks
        return Marks(
            scores=[float(score >= 1.0) for score in marks.scores], incidents=marks.incidents
        )

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """What stands where `extract` says."""
        return [self._found(completion) for completion in completions]

    def _found(self, completion: str) -> str | None:
        return extract_answer(completion, self.extract, require_think=self.require_think)

    def _job(self, completion: str, problem: Problem) -> dict[str, Any] | float:
        if not {"task", "config", "entry"} <= problem.metadata.keys():
            raise ValueError(
                f"ReasoningGymReward needs problems of a ReasoningGymSource; problem "
                f"{problem.id!r} comes from {problem.source!r}"
            )
        answer = self._found(completion)
        if answer is None:
            return 0.0
        task, config = problem.metadata["task"], problem.metadata["config"]
        check_task(task, config)
        return {
            "answer": answer,
            "task": task,
            "config": json.dumps(config),
            "entry": problem.metadata["entry"],
        }

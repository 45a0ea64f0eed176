"""The scorer that comes with each reasoning-gym task."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from gtpo_lit.tasks.answers import Extract, check_extract, extract_answer
from gtpo_lit.tasks.reasoning_gym_tasks import build_task, isolated_random
from gtpo_lit.tasks.rewards.reward import Reward
from gtpo_lit.types import Problem


class ReasoningGymReward(Reward):
    """What the task's own `score_answer` says about the answer found in the response.

    Only for problems of a `ReasoningGymSource`, whose metadata it reads.

    Beware: some scorers (`n_queens`, `binary_matrix`, `spiral_matrix`, `string_insertion`, and the
    symbolic ones such as `countdown` and `simple_integration`) evaluate the answer as Python or as
    a formula, in this process and without a time limit.
    """

    def __init__(
        self, binary: bool = True, extract: Extract = "answer_tag", require_think: bool = False
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

        Raises:
            ValueError: if `extract` is unknown.
        """
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
        return [
            self._grade_one(completion, problem)
            for completion, problem in zip(completions, problems, strict=True)
        ]

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """What stands where `extract` says."""
        return [self._found(completion) for completion in completions]

    def _found(self, completion: str) -> str | None:
        return extract_answer(completion, self.extract, require_think=self.require_think)

    def _grade_one(self, completion: str, problem: Problem) -> float:
        if not {"task", "config", "entry"} <= problem.metadata.keys():
            raise ValueError(
                f"ReasoningGymReward needs problems of a ReasoningGymSource; problem "
                f"{problem.id!r} comes from {problem.source!r}"
            )
        answer = self._found(completion)
        if answer is None:
            return 0.0
        scorer = _scorer(problem.metadata["task"], json.dumps(problem.metadata["config"]))
        try:
            with isolated_random(0):
                score = float(scorer.score_answer(answer, problem.metadata["entry"]))
        except (Exception, SystemExit):  # a model's answer that breaks the scorer is wrong
            return 0.0
        return float(score >= 1.0) if self.binary else score


@lru_cache(maxsize=16)
def _scorer(task: str, config: str) -> Any:
    return build_task(task, json.loads(config), seed=0, size=100)

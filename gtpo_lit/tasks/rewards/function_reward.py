"""Any Python function as a reward."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from gtpo_lit.judging.worker import find_judge
from gtpo_lit.tasks.answers import after_thinking
from gtpo_lit.tasks.pool import Limits
from gtpo_lit.tasks.rewards.pooled import OnError, PooledReward
from gtpo_lit.tasks.rewards.reward import Marks
from gtpo_lit.types import Problem


class FunctionReward(PooledReward):
    """What a function of yours says about each response: ``score(completion, answer) -> number``.

    It runs in a worker process, within the limits, so it may be slow or break. Its module must be
    importable (the current directory counts), and is imported once in every worker.
    """

    def __init__(
        self,
        function: str,
        arguments: dict[str, Any] | None = None,
        after_think: bool = False,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        on_error: OnError = "zero",
        workers: int | None = None,
    ) -> None:
        """Choose the function.

        Args:
            function: its import path, ``my_module:my_score`` or ``my_module.my_score``. It is
                called with the keywords `completion` and `answer` and returns a finite number.
            arguments: further keyword arguments.
            after_think: whether it sees only what follows the last `</think>`, and a response
                whose `<think>` is still open scores 0 without it.
            limits: what one call may cost.
            on_error: what happens when it raises: "zero" scores the answer 0, "stop" ends the run.
            workers: processes that judge, shared with rewards that ask for as many; by default one
                a core, at most four.

        Raises:
            ValueError: if there is no such function, or it does not take these arguments.
        """
        super().__init__(limits, on_error, workers)
        self.arguments = dict(arguments or {})
        self.after_think = after_think
        self.judge = _checked(function, self.arguments)

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """What the function returned for each completion."""
        return list(self._marks(completions, answers).scores)

    def mark(self, completions: list[str], problems: Sequence[Problem]) -> Marks:
        """The scores, and which answers ran out of time or failed."""
        return self._marks(completions, [problem.answer for problem in problems])

    def _marks(self, completions: Sequence[str], answers: Sequence[str]) -> Marks:
        jobs: list[dict[str, Any] | float] = []
        for completion, answer in zip(completions, answers, strict=True):
            text = after_thinking(completion) if self.after_think else completion
            job = {"completion": text, "answer": answer, **self.arguments}
            jobs.append(0.0 if text is None else job)
        return self.judge_all(self.judge, jobs)


def _checked(function: str, arguments: dict[str, Any]) -> str:
    path = function if ":" in function else ":".join(function.rsplit(".", 1))
    if not re.fullmatch(r"[\w.]+:[\w.]+", path) or path.startswith("__main__:"):
        raise ValueError(
            f"function must be an import path such as 'my_module:my_score', got {function!r}"
        )
    try:
        found = find_judge(path)
    except (ImportError, ValueError) as error:
        raise ValueError(f"function {function!r} cannot be imported: {error}") from error
    try:
        inspect.signature(found).bind(completion="", answer="", **arguments)
    except TypeError as error:
        raise ValueError(
            f"function {function!r} cannot be called with completion, answer"
            f"{''.join(f', {name}' for name in arguments)}: {error}"
        ) from error
    except ValueError:  # some built-in functions do not tell what they take
        pass
    return path

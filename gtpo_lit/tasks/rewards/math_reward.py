r"""Mathematical answers, compared by what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from gtpo_lit.tasks.answers import extract_answer, last_boxed
from gtpo_lit.tasks.pool import Limits
from gtpo_lit.tasks.rewards.pooled import OnError, PooledReward
from gtpo_lit.tasks.rewards.reward import Marks
from gtpo_lit.tasks.stated_answer import stated_answer
from gtpo_lit.types import Problem

JUDGE = "gtpo_lit.judging.math_answer:judge"


class MathReward(PooledReward):
    r"""1 if the answer in the last complete box means what the reference means, else 0.

    Numbers are compared exactly, formulas to 150 digits at several points; the order of a list or
    set does not matter, that of a point does; `docs/rewards.md` tells all rules. May be called
    from any thread, with the same outcome.

    >>> MathReward().score([r"\boxed{\frac{2}{4}}", r"\boxed{1/2}, no, \boxed{1/3}"], ["0.5"] * 2)
    [1.0, 0.0]
    """

    def __init__(
        self,
        boxed_required: bool = True,
        require_think: bool = False,
        limits: Limits = Limits(),  # noqa: B008 (frozen)
        on_error: OnError = "zero",
        workers: int | None = None,
    ) -> None:
        r"""Choose what counts as an answer.

        Args:
            boxed_required: whether only a complete `\boxed{}` is one. If false, a response without
                a box is searched for "answer is ...", else its last formula between dollars, else
                its last number.
            require_think: whether a response without `</think>` has no answer at all; for models
                whose prompt already opens `<think>`.
            limits: what judging one answer may cost.
            on_error: "zero", or "stop" to end the run if the judge fails.
            workers: processes that judge, shared with rewards that ask for as many; by default one
                a core, at most four.

        Raises:
            ModuleNotFoundError: if `math-verify` is not installed.
        """
        super().__init__(limits, on_error, workers)
        if find_spec("math_verify") is None:
            raise ModuleNotFoundError(
                "MathReward needs the package math-verify: pip install 'gtpo-lit[math]'",
                name="math_verify",
            )
        self.boxed_required = boxed_required
        self.require_think = require_think

    def score(self, completions: list[str], answers: list[str]) -> list[float]:
        """1.0 or 0.0 for each completion.

        An answer may be a reference itself, or a solution that ends in a box or in `#### 72`.
        """
        return list(self._marks(completions, answers).scores)

    def mark(self, completions: list[str], problems: Sequence[Problem]) -> Marks:
        """The scores, and which answers ran out of time or failed."""
        return self._marks(completions, [problem.answer for problem in problems])

    def _marks(self, completions: Sequence[str], answers: Sequence[str]) -> Marks:
        jobs: list[dict[str, str] | float] = []
        for completion, reference in zip(completions, answers, strict=True):
            answer, reference = self.answer_of(completion), reference_of(reference)
            if not answer or not reference:
                jobs.append(0.0)
            elif answer == reference:
                jobs.append(1.0)
            else:
                jobs.append({"answer": answer, "reference": reference})
        return self.judge_all(JUDGE, jobs)

    def found_answers(self, completions: list[str]) -> list[str | None]:
        """The answer of each completion, as it is written there."""
        return [self.answer_of(completion) for completion in completions]

    def answer_of(self, completion: str) -> str | None:
        r"""The answer that a response gives; None if it gives none."""
        boxed = extract_answer(completion, "boxed", require_think=self.require_think)
        if boxed is not None or self.boxed_required:
            return boxed
        text = extract_answer(completion, "whole", require_think=self.require_think)
        return None if text is None else stated_answer(text)


def reference_of(text: str) -> str:
    r"""The reference in an answer column: the last box, what follows `####`, or all of it.

    >>> reference_of("6*12=72\n#### 72"), reference_of(r"so \boxed{72}"), reference_of(" 72")
    ('72', '72', '72')
    """
    boxed = last_boxed(text)
    return (text.rpartition("####")[2] if boxed is None else boxed).strip()

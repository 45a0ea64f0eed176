"""Which sets `validate` and `test` evaluate on, and how their samples are drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gtpo_lit.tasks import ProblemSource
from gtpo_lit.types import SamplingSettings

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


@dataclass(frozen=True, kw_only=True)
class EvaluationSets:
    """Problem sets with the settings that hold for all of them."""

    option: str
    """Where they were given, for messages: "data.validation" or "data.test"."""
    sources: Mapping[str, ProblemSource]
    sampling: SamplingSettings
    samples: int
    """Completions of each problem."""
    stream: str
    """First part of the name of their random streams, which training shares none of."""

    def __post_init__(self) -> None:
        """Refuse names that cannot be a part of metric and file names.

        Raises:
            ValueError: naming option and name.
        """
        for name in self.sources:
            if not _NAME.fullmatch(name) or name.startswith("."):
                raise ValueError(
                    f"{self.option} has a set named {name!r}; names are letters, digits, '_', '-' "
                    "and '.', since they become parts of metric and file names"
                )

    def require(self, stage: str) -> None:
        """Refuse an evaluation of nothing; `fit` may do without.

        Raises:
            ValueError: naming the option and what was asked for.
        """
        if stage != "fit" and not self.sources:
            raise ValueError(f"{self.option} holds no set: there is nothing to {stage}")


def sets_for_test(
    sources: Mapping[str, ProblemSource] | None,
    validation: EvaluationSets,
    *,
    sampling: SamplingSettings | None,
    samples: int | None,
) -> EvaluationSets:
    """The sets of `test`: its own if there are any, else the validation sets.

    What is not given is as in validation. Validation sets keep their random streams, so that
    `test` under the same settings repeats `validate`; a test set has streams of its own, even
    where it shares its name with a validation set.
    """
    return EvaluationSets(
        option="data.test" if sources else validation.option,
        sources=sources or validation.sources,
        sampling=sampling or validation.sampling,
        samples=validation.samples if samples is None else samples,
        stream="test" if sources else validation.stream,
    )

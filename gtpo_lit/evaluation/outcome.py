"""What remains of a graded problem for its set's figures: small enough to gather from all ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gtpo_lit.evaluation.diversity import distinct_n, distinct_paths
from gtpo_lit.evaluation.votes import vote_key
from gtpo_lit.types import Graded


@dataclass(frozen=True, kw_only=True, slots=True)
class ProblemOutcome:
    """The n samples of one problem as numbers, in sample order."""

    id: str
    """Of the problem; rows of a set with the same text have different ids."""
    correct: tuple[bool, ...]
    reward: tuple[float, ...]
    """Total reward."""
    length: tuple[int, ...]
    """Response tokens, the end token included."""
    truncated: tuple[bool, ...]
    """Cut by the token limit."""
    votes: tuple[int | None, ...] | None
    """Which answer each sample gives, numbered by first appearance; None for a sample without one,
    and None for all where the reward extracts no answers."""
    paths: int
    """Different solution paths."""
    correct_paths: int
    """Different solution paths among the right samples."""
    distinct: tuple[float, float]
    """distinct-1 and distinct-2 of the response tokens."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """Sum over the samples of each reward term's unweighted score, by name of the term."""
    incidents: Mapping[str, int] = field(default_factory=dict)
    """Samples by "<term>/<kind>", such as "math/timeouts": whose scoring went wrong how."""


def outcome_of(graded: Graded) -> ProblemOutcome:
    """Boil a graded problem down."""
    done = graded.completions
    tokens = [completion.token_ids for completion in done]
    right = [one.text for one, correct in zip(done, graded.correct, strict=True) if correct]
    return ProblemOutcome(
        id=graded.problem.id,
        correct=tuple(map(bool, graded.correct)),
        reward=tuple(map(float, graded.reward)),
        length=tuple(map(len, tokens)),
        truncated=tuple(completion.finish_reason == "length" for completion in done),
        votes=None if graded.answers is None else number_votes(graded.answers),
        paths=distinct_paths(completion.text for completion in done),
        correct_paths=distinct_paths(right),
        distinct=(distinct_n(tokens, 1), distinct_n(tokens, 2)),
        terms={name: math.fsum(scores) for name, scores in graded.components.items()},
        incidents={name: sum(flags) for name, flags in graded.incidents.items()},
    )


def number_votes(answers: Sequence[str | None]) -> tuple[int | None, ...]:
    """Answers as numbers: equal ones (by `vote_key`) share theirs.

    An empty answer is no vote.

    >>> number_votes(["7", None, "8.0", "7.", "8", " "])
    (0, None, 1, 0, 1, None)
    """
    numbers: dict[str, int] = {}
    keys = [None if answer is None else vote_key(answer) or None for answer in answers]
    return tuple(None if key is None else numbers.setdefault(key, len(numbers)) for key in keys)

"""The tokens that an algorithm credits most and least."""

from __future__ import annotations

from dataclasses import dataclass

from gtpo_lit.recorded import RecordedStep


@dataclass(frozen=True, kw_only=True)
class CreditedToken:
    """One token with its advantage."""

    piece: str
    advantage: float
    entropy: float
    """In nats."""
    problem: str
    group: int
    sample: int
    place: int
    """Position in the response, from 0."""
    correct: bool


def extreme_tokens(
    step: RecordedStep, count: int
) -> tuple[list[CreditedToken], list[CreditedToken]]:
    """The `count` tokens of highest and of lowest advantage, the extreme ones first.

    Among equals the first by row and position come first. Where an advantage belongs to a whole
    response, the response stands once, by its first token.

    Returns:
        Two lists, the most credited and the least credited tokens.
    """
    assert step.rollouts.advantages is not None
    mask = step.rollouts.mask
    if step.rollouts.advantages.ndim == 1:
        mask = mask & (mask.cumsum(dim=1) == 1)
    places = mask.nonzero()
    values = step.token_advantages[mask]
    most, least = (
        [
            _token(step, *places[index].tolist())
            for index in values.argsort(descending=descending, stable=True)[:count]
        ]
        for descending in (True, False)
    )
    return most, least


def _token(step: RecordedStep, row: int, place: int) -> CreditedToken:
    rollouts, sequence = step.rollouts, step.sequences[row]
    return CreditedToken(
        piece=sequence.pieces[place],
        advantage=float(step.token_advantages[row, place]),
        entropy=float(rollouts.entropy[row, place]),
        problem=sequence.problem,
        group=int(rollouts.group[row]),
        sample=sequence.sample,
        place=place,
        correct=bool(rollouts.correct[row]),
    )

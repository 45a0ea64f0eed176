"""A recorded step from what a run holds at a step's end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.recorded.pieces import TokenPieces
from gtpo_lit.recorded.recorded_step import RecordedSequence, RecordedStep
from gtpo_lit.types import Graded, Rollouts


class Sampled(NamedTuple):
    """What a row of the rollouts does not say of its completion, as plain values."""

    problem: str
    source: str
    reference: str
    sample: int
    text: str
    answer: str | None


def sampled_rows(graded: Sequence[Graded]) -> list[Sampled]:
    """One row a completion, in the order in which rollouts hold them."""
    return [
        Sampled(
            problem=item.problem.id,
            source=item.problem.source,
            reference=item.problem.answer,
            sample=sample,
            text=done.text,
            answer=item.answers[sample] if item.answers is not None else None,
        )
        for item in graded
        for sample, done in enumerate(item.completions)
    ]


def record_step(
    rollouts: Rollouts,
    sampled: Sequence[Sampled],
    *,
    step: int,
    algorithm: Algorithm,
    decode: Callable[[list[int]], str],
) -> RecordedStep:
    """Put a step together.

    Args:
        rollouts: of all ranks, with advantages, on the CPU.
        sampled: `sampled_rows` of all ranks in rank order.
        step: the RL step, from 1.
        algorithm: what gave the advantages.
        decode: ids to text, special tokens shown, nothing cleaned up.

    Raises:
        ValueError: if rollouts and rows are not of the same step, or there are no advantages.
    """
    rows = rollouts.mask.shape[0]
    if len(sampled) != rows or rollouts.advantages is None:
        raise ValueError(
            f"RL step {step} holds {rows} sequences in its rollouts and {len(sampled)} graded "
            f"completions, advantages: {rollouts.advantages is not None}; they cannot be recorded"
        )
    pieces = TokenPieces(decode)
    prompts: dict[tuple[int, ...], str] = {}
    sequences = []
    for row, about in enumerate(sampled):
        prompt_ids, response_ids = row_ids(rollouts, row)
        if prompt_ids not in prompts:  # a group shares its prompt
            prompts[prompt_ids] = decode(list(prompt_ids))
        sequences.append(
            RecordedSequence(
                **about._asdict(), prompt=prompts[prompt_ids], pieces=pieces(response_ids)
            )
        )
    kind = type(algorithm)
    return RecordedStep(
        step=step,
        algorithm=f"{kind.__module__}.{kind.__qualname__}",
        settings=algorithm.settings,
        rollouts=rollouts.replace(denominator=None),
        shaped=algorithm.shaped(rollouts),
        sequences=tuple(sequences),
    )


def row_ids(rollouts: Rollouts, row: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Prompt and response ids of one row without padding; holes of the mask are kept."""
    start = rollouts.input_ids.shape[1] - rollouts.mask.shape[1]
    ids, real = rollouts.input_ids[row], rollouts.attention_mask[row]
    prompt = tuple(ids[:start][real[:start]].tolist())
    return prompt, tuple(ids[start:][real[start:]].tolist())

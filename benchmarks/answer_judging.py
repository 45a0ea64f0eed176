"""How often `MathReward` is wrong, and how fast it is, on answers made from the benchmark files.

    python -m benchmarks.answer_judging --data <folder of the files>

Judged are the files' references as answers to themselves and to the row before, references with one
thing changed (wrong), references in another form (right), and a step's worth of responses with
hostile ones among them. Every misjudged answer is listed; a table comes last.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.answers.composed import composed
from benchmarks.answers.memory import family_mb
from benchmarks.answers.mutants import make_mutants
from benchmarks.answers.references import (
    Pair,
    in_a_sentence,
    itself,
    next_rows,
    read_columns,
    reference_in,
)
from benchmarks.answers.responses import HANGS, Response, make_responses
from benchmarks.answers.rewrites import make_rewrites
from gtpo_lit.tasks.rewards import Limits, MathReward

STEP = 1000
"""Responses a call, as one RL step would score them."""


class Row(NamedTuple):
    """One line of the table."""

    check: str
    answers: int
    misjudged: int
    bound: float
    """The largest share that may be misjudged."""
    seconds: float


class Inputs(NamedTuple):
    """What answers are made of."""

    columns: dict[str, list[str]]
    """The answer column of every file."""
    files: dict[str, list[str]]
    """The final answers in it."""
    shaped: list[str]
    """References of MATH500 that are no whole number, and composed ones."""
    plain: list[str]
    """All others, each once."""


def read_inputs(folder: Path) -> Inputs:
    """The references of all files."""
    columns = read_columns(folder)
    files = {name: list(map(reference_in, rows)) for name, rows in columns.items()}
    every = dict.fromkeys(text for rows in files.values() for text in rows)
    numbers = [int(text) for text in every if text.isdigit()]
    formulas = [text for text in files["math500"] if not re.fullmatch(r"-?\d+", text)]
    shaped = list(dict.fromkeys([*formulas, *composed(numbers, 225)]))
    return Inputs(columns, files, shaped, [text for text in every if text not in set(shaped)])


def judged(
    reward: MathReward, check: str, pairs: Sequence[Pair], wanted: float, bound: float
) -> tuple[Row, list[Pair]]:
    """The row of a check, and the answers that did not score `wanted`."""
    started = time.perf_counter()
    scores = reward.score(
        [in_a_sentence(pair.answer) for pair in pairs], [pair.reference for pair in pairs]
    )
    seconds = time.perf_counter() - started
    missed = [pair for pair, score in zip(pairs, scores, strict=True) if score != wanted]
    return Row(check, len(pairs), len(missed), bound, seconds), missed


class Stress(NamedTuple):
    """What came of the mixed responses."""

    row: Row
    missed: list[Response]
    memory: list[float]
    """MiB of this process and its workers, after each step."""


def stressed(reward: MathReward, responses: Sequence[Response]) -> Stress:
    """Score responses step by step."""
    missed, memory = [], []
    started = time.perf_counter()
    for start in range(0, len(responses), STEP):
        step = responses[start : start + STEP]
        scores = reward.score(
            [response.completion for response in step], [response.reference for response in step]
        )
        missed += [one for one, score in zip(step, scores, strict=True) if score != one.wanted]
        memory.append(family_mb())
        print(f"{start + len(step)} of {len(responses)} responses", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - started
    return Stress(Row("mixed responses", len(responses), len(missed), 0.0, seconds), missed, memory)


def table(rows: Sequence[Row]) -> str:
    """A Markdown table.

    >>> print(table([Row("wrong ones", 5000, 5, 0.001, 2.0)]))
    | check | answers | misjudged | share, % | at most, % | seconds |
    |---|---|---|---|---|---|
    | wrong ones | 5000 | 5 | 0.100 | 0.1 | 2.0 |
    """
    lines = [
        "| check | answers | misjudged | share, % | at most, % | seconds |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        share = 100 * row.misjudged / row.answers
        lines.append(
            f"| {row.check} | {row.answers} | {row.misjudged} | {share:.3f} "
            f"| {100 * row.bound:g} | {row.seconds:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("GTPO_LIT_DATA")
    parser.add_argument("--data", type=Path, default=folder, required=folder is None)
    parser.add_argument("--mutants", type=int, default=5000)
    parser.add_argument("--rewrites", type=int, default=2000)
    parser.add_argument("--responses", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="limit of each answer")
    parser.add_argument("--workers", type=int, help="processes; default as of the reward")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    reward = MathReward(limits=Limits(seconds=options.seconds), workers=options.workers)
    inputs = read_inputs(options.data)
    print(f"load {os.getloadavg()[0]:.2f}, {options.mutants} mutants are made", file=sys.stderr)
    mutants = make_mutants(inputs.shaped, inputs.plain, options.mutants, seed=options.seed)
    # Shaped ones weigh more, as among the mutants.
    sources = [*inputs.shaped, *inputs.shaped, *inputs.plain[::8]]
    rewrites = make_rewrites(sources, options.rewrites, seed=options.seed)
    checks = [
        (f"{name}, the reference itself", itself(rows), 1.0, 0.01 if name == "math500" else 0.0)
        for name, rows in inputs.columns.items()
    ]
    others = [pair for rows in inputs.files.values() for pair in next_rows(rows)]
    checks += [
        ("the next row's answer", others, 0.0, 0.005),
        ("changed references", mutants.wrong, 0.0, 0.001),
        ("rewritten references", rewrites, 1.0, 0.01),
    ]
    found = []
    for check in checks:
        row, missed = judged(reward, *check)
        found.append(row)
        print(*(f"{check[0]}: {pair}" for pair in missed), sep="\n", end="\n" if missed else "")
    known = Counter(reward.counts)
    responses = make_responses(rewrites, mutants.wrong, options.responses, seed=options.seed)
    stress = stressed(reward, responses)
    for one in stress.missed:
        print(f"mixed, {one.kind}: {one.reference!r}, {one.completion[-300:]!r}")
    print(table([*found, stress.row]))
    print(
        f"{len(mutants.equal)} changed references were left out as equal by sympy, "
        f"{mutants.undecided} could not be read by it.\n"
        f"Mixed responses: {reward.counts['timeouts'] - known['timeouts']} timeouts ({HANGS} hang),"
        f" {reward.counts['errors'] - known['errors']} errors, memory after each {STEP} in MiB: "
        + ", ".join(f"{size:.0f}" for size in stress.memory)
    )


if __name__ == "__main__":
    main()

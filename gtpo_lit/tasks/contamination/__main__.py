"""Checks a training set against evaluation sets: `python -m gtpo_lit.tasks.contamination`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser

from gtpo_lit.tasks.contamination import DEFAULT_N, MOST_SHARED, Hit, find_contamination
from gtpo_lit.tasks.source import ProblemSource

SHOWN = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the check. The exit status is 0 without hits, 1 with hits, 2 for a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m gtpo_lit.tasks.contamination",
        description="List training problems that share a run of words with evaluation problems.",
    )
    parser.add_argument(
        "configs",
        nargs="+",
        type=Path,
        help="configs and overlays; the last data.problems and every data.validation count",
    )
    parser.add_argument("--n", type=int, default=DEFAULT_N, help="words of a run (%(default)s)")
    parser.add_argument(
        "--most_shared",
        type=int,
        default=MOST_SHARED,
        help="ignore runs that more evaluation problems have (%(default)s)",
    )
    parser.add_argument("--output", type=Path, help="write every hit to this JSONL file")
    options = parser.parse_args(arguments)
    try:
        train, evaluation = read_sources(options.configs)
        for name, source in {"train": train, **evaluation}.items():
            print(f"{name}: {len(source)} problems. {source.note()}".rstrip())
        hits = find_contamination(train, evaluation, options.n, options.most_shared)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    _show(hits, evaluation, options.n)
    if options.output:
        lines = [json.dumps(_record(hit)) + "\n" for hit in hits]
        options.output.write_text("".join(lines), encoding="utf-8")
    return 1 if hits else 0


def read_sources(configs: Sequence[Path]) -> tuple[ProblemSource, dict[str, ProblemSource]]:
    """The training set and the evaluation sets that some configs name.

    Raises:
        ValueError: if a file cannot be read, or names no training or no evaluation set at all.
    """
    problems: Any = None
    validation: dict[str, Any] = {}
    for path in configs:
        try:
            config = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise ValueError(f"{path}: {error}") from error
        data = config.get("data") if isinstance(config, dict) else None
        if isinstance(data, dict):
            problems = data.get("problems", problems)
            validation |= data.get("validation") or {}
    if not problems or not validation:
        missing = "data.validation" if problems else "data.problems"
        raise ValueError(f"none of {', '.join(map(str, configs))} has {missing}")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--problems", type=ProblemSource)
    parser.add_argument("--validation", type=dict[str, ProblemSource])
    try:
        parsed = parser.parse_object({"problems": problems, "validation": validation})
    except Exception as error:  # its own errors derive from none of the usual ones
        raise ValueError(str(error)) from error
    sources = parser.instantiate_classes(parsed)
    return sources.problems, sources.validation


def _show(hits: list[Hit], evaluation: dict[str, ProblemSource], n: int) -> None:
    for name, source in evaluation.items():
        own = {source.problem(index).id for index in range(len(source))}
        struck = {hit.evaluation.id for hit in hits if hit.evaluation.id in own}
        print(f"{name}: {len(struck)} of {len(source)} problems share {n} words with training")
    for hit in hits[:SHOWN]:
        print(
            f"  {hit.coverage:6.1%} of {hit.evaluation.id} in {hit.train.id}: {hit.example[:100]}"
        )
    if len(hits) > SHOWN:
        print(f"  and {len(hits) - SHOWN} more; --output FILE has all of them")


def _record(hit: Hit) -> dict[str, Any]:
    return {
        "evaluation": hit.evaluation.id,
        "train": hit.train.id,
        "stretches": hit.stretches,
        "coverage": hit.coverage,
        "example": hit.example,
        "evaluation_question": hit.evaluation.question,
        "train_question": hit.train.question,
    }


if __name__ == "__main__":
    sys.exit(main())

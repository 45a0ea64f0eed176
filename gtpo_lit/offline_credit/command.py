"""``gtpo-lit credit``: recorded rollouts under other algorithms, without training."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gtpo_lit.credit_page import write_credit_page
from gtpo_lit.metrics_csv import write_atomically
from gtpo_lit.offline_credit.chosen import RECORDED, SHORT_NAMES, Chosen, chosen_algorithms
from gtpo_lit.offline_credit.comparison import Credit, credit_under
from gtpo_lit.offline_credit.extremes import extreme_tokens
from gtpo_lit.offline_credit.policy_gradients import add_gradients, check_policy
from gtpo_lit.offline_credit.report import report_json, table_csv, table_text, tokens_text
from gtpo_lit.recorded import RecordedStep, read_rollouts

DESCRIPTION = """\
Computes the credit of recorded rollouts anew, under any algorithms and settings, and compares it
with GRPO's (whose advantages are DAPO's): sign flips, effective shares, correlation, the tokens
that get most and least, and with --policy the cosine of the gradient to DAPO's. docs/credit.md
explains each figure.
"""
NAMES = f"""\
comma-separated: {", ".join([RECORDED, *SHORT_NAMES])}, class paths, or YAML files such as
configs/algorithm/gtpo.yaml; +option=value after one sets an option: gtpo+alpha2=0.5
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the subcommand.

    Raises:
        ValueError: for a file, algorithm, policy or option that is wrong, naming the option.
        SystemExit: with code 2 for options that do not parse.
    """
    options = _parser().parse_args(arguments)
    _check_outputs(options)
    try:
        step = read_rollouts(options.rollouts)
    except (OSError, ValueError) as error:
        raise ValueError(f"--rollouts: {error}") from None
    chosen = chosen_algorithms(options.algorithms, step)
    if options.policy is not None:
        check_policy(options.policy, step)
    credits = {item.name: _credit(item, step) for item in chosen}
    about = _about(options.rollouts, step)
    print(_headline(about))
    if options.policy is not None:
        about["policy"] = options.policy
        about["policy_gap"] = add_gradients(
            options.policy, step, chosen, credits, rows=options.rows, say=_say
        )
        print(
            f"The log-probs of --policy are {about['policy_gap']:.2g} nats from the recorded ones "
            "on average (0 but for rounding at the weights that sampled)."
        )
    _report(options, about, credits)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gtpo-lit credit",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--rollouts", required=True, metavar="FILE", help="a step_NNNNNN.parquet of RolloutRecorder"
    )
    parser.add_argument("--algorithms", required=True, metavar="A,B,...", help=NAMES)
    parser.add_argument("--policy", metavar="PATH", help="model for the gradients, as in configs")
    parser.add_argument(
        "--rows", type=_count, default=8, help="sequences in one forward of --policy (8)"
    )
    parser.add_argument(
        "--tokens", type=_count, default=3, help="most and least credited tokens to list (3)"
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything")
    parser.add_argument("--pages", type=Path, metavar="FOLDER", help="write a viewer page for each")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def _check_outputs(options: argparse.Namespace) -> None:
    # Before the work, not after it.
    for name in ("csv", "json"):
        path = getattr(options, name)
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ValueError(f"--{name} {path}: there is no folder {path.parent} for that file")
    if options.pages is not None and options.pages.exists() and not options.pages.is_dir():
        raise ValueError(f"--pages {options.pages} is not a folder")


def _credit(item: Chosen, step: RecordedStep) -> Credit:
    try:
        return credit_under(step, item.algorithm)
    except ValueError as error:
        raise ValueError(f"--algorithms {item.name}: {error}") from None


def _about(file: str, step: RecordedStep) -> dict[str, Any]:
    mask, correct = step.rollouts.mask, step.rollouts.correct
    return {
        "rollouts": str(file),
        "step": step.step,
        "recorded_under": step.algorithm,
        "sequences": len(correct),
        "correct": int(correct.sum()),
        "groups": len(step.rollouts.group.unique()),
        "tokens": int(mask.sum()),
    }


def _headline(about: dict[str, Any]) -> str:
    return (
        f"RL step {about['step']}: {about['sequences']} sequences ({about['correct']} right) in "
        f"{about['groups']} groups, {about['tokens']} tokens, recorded under "
        f"{about['recorded_under'].rpartition('.')[2]}"
    )


def _say(text: str) -> None:
    print(text, flush=True)


def _report(options: argparse.Namespace, about: dict[str, Any], credits: dict[str, Credit]) -> None:
    figures = {name: credit.figures for name, credit in credits.items()}
    tokens = {name: extreme_tokens(credit.step, options.tokens) for name, credit in credits.items()}
    print("\n" + table_text(figures))
    for name, (most, least) in tokens.items():
        advantages = credits[name].step.rollouts.advantages
        whole = advantages is not None and advantages.ndim == 1
        what = "Responses (by their first token)" if whole else "Tokens"
        print(f"\n{what} with the most and the least credit under {name}:")
        print(tokens_text(most, least))
    if options.csv is not None:
        write_atomically(options.csv, table_csv(figures))
        print(f"\nTable: {options.csv}")
    if options.json is not None:
        settings = {
            name: {"class_path": credit.step.algorithm, "settings": dict(credit.step.settings)}
            for name, credit in credits.items()
        }
        content = _finite(report_json(about, figures, settings, tokens))
        text = json.dumps(content, indent=2, allow_nan=False, default=str)
        write_atomically(options.json, text + "\n")
        print(f"Figures, settings and tokens: {options.json}")
    if options.pages is not None:
        for name, credit in credits.items():
            file = options.pages / f"{re.sub(r'[^A-Za-z0-9_.=+-]+', '_', name)}.html"
            write_credit_page(credit.step, file)
            print(f"Page: {file}")


def _finite(value: Any) -> Any:
    """The same with None for numbers that JSON has no word for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

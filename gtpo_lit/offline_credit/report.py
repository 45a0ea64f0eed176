"""Offline credit as a table on the screen, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gtpo_lit.offline_credit.extremes import CreditedToken

Figures = Mapping[str, float | None]
# By figure: the head of its column on the screen.
HEADS = {
    "grpo_correlation": "corr. GRPO",
    "sign_flips": "flips",
    "sign_flips_correct": "of right",
    "sign_flips_wrong": "of wrong",
    "no_credit": "no credit",
    "mean_size": "mean |A|",
    "pivotal_share": "on pivotal",
    "effective_sequences": "eff. seq.",
    "shaped_fraction": "shaped",
    "conservation_gap": "gap",
    "gradient_cosine": "cos DAPO",
    "gradient_norm": "|gradient|",
}
LONGEST_PIECE = 24


def table_text(by_algorithm: Mapping[str, Figures]) -> str:
    """A line an algorithm; a dash where a figure cannot be told.

    >>> print(table_text({"dapo": {"grpo_correlation": 1.0, "effective_sequences": None}}))
    algorithm  corr. GRPO  eff. seq.
    dapo           1.0000          -
    """
    names = list(next(iter(by_algorithm.values())))
    rows = [["algorithm", *(HEADS[name] for name in names)]]
    rows += [
        [algorithm, *(_shown(figures[name]) for name in names)]
        for algorithm, figures in by_algorithm.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def tokens_text(most: Sequence[CreditedToken], least: Sequence[CreditedToken]) -> str:
    """A line a token, as Python writes its piece, so that nothing in it can move the cursor."""
    lines = []
    for name, tokens in (("most", most), ("least", least)):
        for token in tokens:
            piece = ascii(token.piece)
            if len(piece) > LONGEST_PIECE:
                piece = piece[: LONGEST_PIECE - 3] + "..."
            side = "right" if token.correct else "wrong"
            lines.append(
                f"  {name.ljust(5)} {token.advantage:+9.4f}  {piece.ljust(LONGEST_PIECE)}  "
                f"entropy {token.entropy:.3f}  {side}  {ascii(token.problem)[1:-1]}, sample "
                f"{token.sample}, token {token.place + 1}"
            )
    return "\n".join(lines)


def table_csv(by_algorithm: Mapping[str, Figures]) -> str:
    """A row an algorithm; floats as Python writes them, an empty cell where one cannot be told."""
    names = list(next(iter(by_algorithm.values())))
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["algorithm", *names])
    for algorithm, figures in by_algorithm.items():
        cells = ["" if figures[name] is None else repr(figures[name]) for name in names]
        table.writerow([algorithm, *cells])
    return text.getvalue()


def report_json(
    about: Mapping[str, Any],
    by_algorithm: Mapping[str, Figures],
    settings: Mapping[str, Mapping[str, Any]],
    tokens: Mapping[str, tuple[Sequence[CreditedToken], Sequence[CreditedToken]]],
) -> dict[str, Any]:
    """Everything as one object: the keys of `about`, and the algorithms by name."""
    return {
        **about,
        "algorithms": {
            name: {
                **settings[name],
                "figures": dict(figures),
                "most_credited": [asdict(token) for token in tokens[name][0]],
                "least_credited": [asdict(token) for token in tokens[name][1]],
            }
            for name, figures in by_algorithm.items()
        },
    }


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if value == 0 or abs(value) >= 5e-4 else f"{value:.1e}"

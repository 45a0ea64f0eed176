"""Reference answers of the public benchmark files, as their rows hold them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FILES = ("gsm8k_train", "gsm8k_test", "math500", "aime24", "amc23")


class Pair(NamedTuple):
    """An answer and the reference that it is judged by."""

    kind: str
    """How the answer was made from the reference."""
    reference: str
    answer: str


def read_columns(folder: Path) -> dict[str, list[str]]:
    """The answer column of every row, by the name of its file."""
    return {name: [_column(line) for line in _lines(folder / f"{name}.jsonl")] for name in FILES}


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _column(line: str) -> str:
    return str(json.loads(line)["answer"])


def reference_in(column: str) -> str:
    r"""The final answer in an answer column, as a response would write it.

    >>> reference_in("6*12=72\n#### 72"), reference_in("27.0"), reference_in(r"\frac{1}{2}")
    ('72', '27', '\\frac{1}{2}')
    """
    return column.rpartition("####")[2].strip().removesuffix(".0")


def itself(columns: Sequence[str]) -> list[Pair]:
    """The final answer of every row, judged by the row's own column."""
    return [Pair("itself", column, reference_in(column)) for column in columns]


def next_rows(references: Sequence[str]) -> list[Pair]:
    """The next row's reference as the answer, where it is another text.

    >>> next_rows(["5", "6", "6 "])
    [Pair(kind='next row', reference='5', answer='6')]
    """
    pairs = zip(references, references[1:], strict=False)
    return [
        Pair("next row", one, other)
        for one, other in pairs
        if one.replace(" ", "") != other.replace(" ", "")
    ]


def in_a_sentence(answer: str) -> str:
    r"""A response that ends in the answer.

    >>> in_a_sentence("5")
    'Adding both sides gives the result. The answer is \\boxed{5}.'
    """
    return rf"Adding both sides gives the result. The answer is \boxed{{{answer}}}."

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


def read_references(folder: Path) -> dict[str, list[str]]:
    """The reference of every row, by the name of its file."""
    return {name: [_reference(line) for line in _lines(folder / f"{name}.jsonl")] for name in FILES}


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def _reference(line: str) -> str:
    # A solution of GSM8K ends in "#### 72".
    return str(json.loads(line)["answer"]).rpartition("####")[2].strip()


def itself(references: Sequence[str]) -> list[Pair]:
    """Every reference as the answer to itself."""
    return [Pair("itself", text, text) for text in references]


def next_rows(references: Sequence[str]) -> list[Pair]:
    """The next row's reference as the answer, where it is another text.

    >>> next_rows(["5", "6", "6.0"])
    [Pair(kind='next row', reference='5', answer='6')]
    """
    pairs = zip(references, references[1:], strict=False)
    return [Pair("next row", one, other) for one, other in pairs if _bare(one) != _bare(other)]


def _bare(text: str) -> str:
    return text.replace(" ", "").removesuffix(".0")


def in_a_sentence(answer: str) -> str:
    r"""A response that ends in the answer.

    >>> in_a_sentence("5")
    'Adding both sides gives the result. The answer is \\boxed{5}.'
    """
    return rf"Adding both sides gives the result. The answer is \boxed{{{answer}}}."

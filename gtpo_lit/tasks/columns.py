"""Which columns of a data file hold the question, the answer, the id and the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ColumnMap:
    """The column of each field. A dot leads into nested columns: `prompt.0.content`.

    Args:
        question: what is asked.
        answer: the reference answer, or a solution that holds it.
        id: what names a row; its number in the file if not given.
        source: where a row comes from; the name of the set if not given.
    """

    question: str = "question"
    answer: str = "answer"
    id: str | None = None
    source: str | None = None

    def named(self) -> dict[str, str]:
        """The columns in use by the field that each is for."""
        fields = {
            "question": self.question,
            "answer": self.answer,
            "id": self.id,
            "source": self.source,
        }
        return {field: column for field, column in fields.items() if column is not None}


def top_column(path: str, columns: Iterable[str]) -> str:
    """The column of a file that `path` leads into: itself, or the part before the first dot.

    >>> top_column("prompt.0.content", ["prompt"]), top_column("a.b", ["a.b", "a"])
    ('prompt', 'a.b')
    """
    return path if path in columns else path.partition(".")[0]


def cell(row: Mapping[str, Any], path: str) -> Any:
    """What a row holds at `path`; None where a part of the way is missing.

    >>> cell({"prompt": [{"content": "2+2?", "role": "user"}]}, "prompt.0.content")
    '2+2?'
    """
    if path in row:
        return row[path]
    found: Any = row
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, (list, tuple)) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def check_columns(wanted: Mapping[str, str], columns: list[str], first: Mapping[str, Any]) -> None:
    """Check that every wanted column is there.

    Args:
        wanted: column paths by the option that names them.
        columns: the columns of the file.
        first: its first row, by which nested columns are checked.

    Raises:
        ValueError: naming the option, the column and the columns that there are.
    """
    for option, path in wanted.items():
        top = top_column(path, columns)
        if top not in columns:
            raise ValueError(
                f"{option}: there is no column {path!r}; the columns are {', '.join(columns)}"
            )
        rest = path.removeprefix(top).lstrip(".")
        if rest and cell({top: first[top]}, path) is None:
            raise ValueError(
                f"{option}: column {top!r} holds nothing at {rest!r}; the first row has "
                f"{_shown(first[top])}"
            )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "..."

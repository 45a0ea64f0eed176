r"""What kind of thing an answer is: a list, a set, a point, an interval, a relation, a word, ...

Built on plain text (`latex_text.plain`); expressions inside are left as text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gtpo_lit.judging.latex_text import NEW_ROW
from gtpo_lit.judging.units import split_unit

MAX_PARTS = 100


@dataclass(frozen=True)
class Leaf:
    """An expression and its unit."""

    text: str
    unit: str | None = None


@dataclass(frozen=True)
class Word:
    """A name, such as an option's letter or "even"; lower case, without parentheses."""

    text: str


@dataclass(frozen=True)
class Parts:
    """Several answers in a structure.

    `kind` is "list" (bare), "set", "union", "ratio" (all four but the last in any order), "matrix"
    (rows of "row"), or the two brackets of a point or an interval, such as "(]".
    """

    kind: str
    items: tuple[Answer, ...]


@dataclass(frozen=True)
class Relation:
    r"""A chain such as ``1 < x \le 3``: one side more than there are signs."""

    sides: tuple[str, ...]
    signs: tuple[str, ...]


Answer = Leaf | Word | Parts | Relation

_OPEN, _CLOSE = ("\\{", "(", "[", "{"), ("\\}", ")", "]", "}")
_SCAN = re.compile(r"\\[{}]|\\begin|\\end|\\[A-Za-z]+|.", re.DOTALL)
_MATRIX = re.compile(r"\\begin\{([a-zA-Z]*)matrix\}(.*)\\end\{\1matrix\}", re.DOTALL)
# Of bare letters, three in a row that are not just variables.
_WORD = re.compile(
    r"\\text\{([^{}\\]*)\}|\(([A-Z])\)"
    r"|((?=.*[A-Za-z]{3})(?![abcxyz]+$)[A-Za-z']+(?:[ -][A-Za-z']+)*)"
)
_RELATION = {"=", "<", ">", "\\le", "\\ge", "\\ne"}
_THOUSANDS = re.compile(r"[-+]?\s*(?:\\\$)?\s*\d{1,3}(?:,\d{3})+(?:\.\d+)?\D*")
_CONDITION = re.compile(
    r"\\\{\s*([a-z])\s*(?:\\in\s*\\mathbb\s*\{?R\}?)?\s*(?:\\mid|:|\|)\s*(.*\1.*)\\\}"
)
_NAMES = re.compile(r"\b(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|pi|inf|arc\w+)\b")


def structure(text: str) -> Answer:
    r"""The structure of a plain text.

    Raises:
        ValueError: if it has more than 100 parts.

    >>> structure("(1,2]").kind, structure(r"\{1,2\}").kind, structure("3, 5").kind
    ('(]', 'set', 'list')
    """
    text = re.sub(r"^[A-Za-z]\s*\\in(?![A-Za-z])\s*", "", text.strip())
    if condition := _CONDITION.fullmatch(text):
        text = condition[2].strip()
    parts = split(text, {",", ";"})
    if len(parts) > 1 and not _THOUSANDS.fullmatch(text):
        return Parts("list", _all(_shared_left(parts)))
    sides, signs = _relation(text)
    if signs:
        return Relation(tuple(sides), tuple(signs))
    parts = split(text, {"\\cup"})
    if len(parts) > 1:
        return Parts("union", _all(parts))
    if match := _MATRIX.fullmatch(text):
        rows = match[2].strip().removesuffix(NEW_ROW.strip()).split(NEW_ROW)
        return Parts(
            "determinant" if match[1].lower() == "v" else "matrix",
            tuple(Parts("row", _all(row.split("&"))) for row in rows),
        )
    if match := _WORD.fullmatch(text):
        word = next(group for group in match.groups() if group is not None)
        if not _NAMES.search(word) and not re.search(r"\d", word):
            return Word(re.sub(r"[\s().]+", " ", word).strip().lower())
    if inner := _enclosed(text):
        return inner
    if len(parts := split(text, {":"})) > 1:
        return Parts("ratio", _all(parts))
    if "\\pm" in text or "\\mp" in text:
        both = (text.replace("\\pm", "+").replace("\\mp", "-"),
                text.replace("\\pm", "-").replace("\\mp", "+"))  # fmt: skip
        return Parts("list", tuple(Leaf(*split_unit(side.strip())) for side in both))
    return Leaf(*split_unit(text))


def _all(parts: list[str]) -> tuple[Answer, ...]:
    if len(parts) > MAX_PARTS:
        raise ValueError("too many parts")
    items: list[Answer] = []
    for part in parts:
        item = structure(part)
        # 1 \pm 2 inside a list or set stands for two of its members.
        items += item.items if isinstance(item, Parts) and item.kind == "list" else (item,)
    return tuple(items)


def _enclosed(text: str) -> Answer | None:
    """The structure of a text that one pair of brackets encloses; None without such a pair."""
    opening = next((mark for mark in _OPEN if text.startswith(mark)), None)
    if opening is None or _closes_at(text) != len(text):
        return None
    closing = next(mark for mark in _CLOSE if text.endswith(mark))
    inner = text[len(opening) : -len(closing)].strip()
    if opening == "\\{":
        return Parts("set", _all(split(inner, {",", ";"})) if inner else ())
    parts = split(inner, {",", ";"})
    if opening in "([" and len(parts) > 1:
        return Parts(opening + closing, _all(parts))
    return structure(inner) if opening + closing in ("()", "{}") and inner else None


def _closes_at(text: str) -> int:
    """The place after the bracket that closes the first one; -1 if none does."""
    depth = 0
    for match in _SCAN.finditer(text):
        depth += (match[0] in _OPEN) - (match[0] in _CLOSE)
        if depth == 0:
            return match.end()
    return -1


def depth(text: str) -> int:
    """How deep brackets of any kind are nested, at most.

    >>> depth("(1, [2))"), depth("{{{{")
    (2, 4)
    """
    level = most = 0
    for match in _SCAN.finditer(text):
        level += (match[0] in _OPEN) - (match[0] in _CLOSE)
        most = max(most, level)
    return most


def split(text: str, marks: set[str]) -> list[str]:
    """The parts of `text` between marks that stand in no bracket and no environment."""
    parts, start, depth = [], 0, 0
    for match in _SCAN.finditer(text):
        token = match[0]
        depth += (token in (*_OPEN, "\\begin")) - (token in (*_CLOSE, "\\end"))
        if depth == 0 and token in marks:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


def _relation(text: str) -> tuple[list[str], list[str]]:
    """Sides and signs of a chain of relations."""
    sides, signs, start, depth = [], [], 0, 0
    for match in _SCAN.finditer(text):
        token = match[0]
        depth += (token in (*_OPEN, "\\begin")) - (token in (*_CLOSE, "\\end"))
        if depth == 0 and token in _RELATION:
            sides.append(text[start : match.start()].strip())
            signs.append(token)
            start = match.end()
    return [*sides, text[start:].strip()], signs


def _shared_left(parts: list[str]) -> list[str]:
    """`x = 1, 2` means `x = 1, x = 2`."""
    first, signs = _relation(parts[0])
    if signs == ["="] and re.fullmatch(r"[A-Za-z]", first[0]):
        if not any(_relation(part)[1] for part in parts[1:]):
            return [first[1], *parts[1:]]
        if all(re.fullmatch(rf"{first[0]}\s*=[^=]*", part) for part in parts):
            return [part.partition("=")[2].strip() for part in parts]
    return parts

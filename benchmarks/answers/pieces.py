r"""Cuts a reference into its members, and a member into its terms.

Written apart from the judge: only enough for benchmark references, by counting brackets.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

_OPENING, _CLOSING = r"\\\{|\\begin|[(\[{]", r"\\\}|\\end|[)\]}]"
_MARK = re.compile(rf"(?P<open>{_OPENING})|(?P<close>{_CLOSING})|\\[A-Za-z]+|\\.|.", re.DOTALL)
_SHELLS = [
    (re.compile(r"\\begin\{pmatrix\}"), re.compile(r"\\end\{pmatrix\}$"), r"\\\\|&"),
    (re.compile(r"(?:x \\in )?(?:\\left)?\s*(?:\\\{|[(\[])"),
     re.compile(r"(?:\\right)?\s*(?:\\\}|[)\]])$"), ","),
]  # fmt: skip


@dataclass(frozen=True)
class Structured:
    r"""A reference as its members and what stands around them.

    `(3,4]` has the members 3 and 4; `x=5` and `3\sqrt{13}` have themselves as the only one.
    """

    before: str
    members: tuple[str, ...]
    separators: tuple[str, ...]
    after: str

    @property
    def text(self) -> str:
        """The whole reference."""
        rest = "".join(map("".join, zip(self.separators, self.members[1:], strict=True)))
        return self.before + self.members[0] + rest + self.after

    @property
    def ordered(self) -> bool:
        """Whether the members' places matter: those of a point, an interval or a matrix."""
        return "matrix" in self.before or self.before.rstrip().endswith(("(", "["))

    def replaced(self, place: int, member: str) -> str:
        """The text with another member."""
        members = [*self.members[:place], member, *self.members[place + 1 :]]
        return Structured(self.before, tuple(members), self.separators, self.after).text


def structured(text: str) -> Structured:
    r"""The members of a reference.

    >>> structured(r"\left( 3, \frac{\pi}{2} \right)").members, structured("10,080").members
    (('3', '\\frac{\\pi}{2}'), ('10,080',))
    """
    for opening, closing, separator in _SHELLS:
        start, end = opening.match(text), closing.search(text)
        if start and end and _encloses(text, start.end() - 1):
            inner = text[start.end() : end.start()]
            parts = _split(inner, separator)
            return _spaced(text[: start.end()], parts, text[end.start() :])
    tight = re.sub(r"\\[!,]|\s", "", text)
    if re.fullmatch(r"(?:\\\$)?-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", tight):
        return Structured("", (text,), (), "")
    return _spaced("", _split(text, r",|\\cup"), "")


def terms(text: str) -> list[str]:
    r"""The terms of a sum, each with its sign.

    >>> terms(r"x^{2-k} - 3x + 1")
    ['x^{2-k}', '-3x', '+1']
    """
    parts = [part.strip() for part in _split(text, r"(?<=[\w)}\s])(?=[-+])")[0::2]]
    return [part[0] + part[1:].strip() for part in parts if part]


def _encloses(text: str, place: int) -> bool:
    """Whether the bracket that stands at `place`, or begins there, closes at the end only."""
    depth = 0
    for match in _MARK.finditer(text):
        depth += bool(match["open"]) - bool(match["close"])
        if match.end() > place and depth == 0:
            return not re.search(r"[^\s{}a-z\\]", text[match.end() :])
    return False


def _split(text: str, separator: str) -> list[str]:
    """Parts and separators in turn; brackets are not entered."""
    parts, start, depth = [], 0, 0
    found = {match.start(): match for match in re.finditer(separator, text)}
    for match in _MARK.finditer(text):
        if depth == 0 and (mark := found.get(match.start())) and match.start() >= start:
            parts += [text[start : mark.start()], mark[0]]
            start = mark.end()
        depth += bool(match["open"]) - bool(match["close"])
    return [*parts, text[start:]]


def _spaced(before: str, parts: list[str], after: str) -> Structured:
    # Space around a member belongs to what stands beside it.
    members = [part.strip() for part in parts[0::2]]
    gaps = [re.fullmatch(r"(\s*)(.*?)(\s*)", part, re.DOTALL) for part in parts[0::2]]
    left = [gap[1] if gap else "" for gap in gaps]
    right = [gap[3] if gap and gap[2] else "" for gap in gaps]
    separators = [right[place] + mark + left[place + 1] for place, mark in enumerate(parts[1::2])]
    return Structured(before + left[0], tuple(members), tuple(separators), right[-1] + after)


def changed_once(text: str, pattern: str, change: Callable[[re.Match[str]], str]) -> list[str]:
    """The text with one match changed, for every match in turn.

    >>> changed_once("a1b2", r"[0-9]", lambda match: "x")
    ['axb2', 'a1bx']
    """
    return [
        text[: match.start()] + change(match) + text[match.end() :]
        for match in re.finditer(pattern, text)
    ]

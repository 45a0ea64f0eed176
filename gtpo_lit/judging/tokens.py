"""Cuts a LaTeX or plain-text expression into tokens."""

from __future__ import annotations

import re
from fractions import Fraction

MAX_TOKENS = 600

_FUNCTIONS = "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh|ln|log|exp|sqrt"
_GREEK = (
    "alpha|beta|gamma|delta|epsilon|varepsilon|zeta|eta|theta|iota|kappa|lambda|mu|nu|xi|rho|sigma"
    "|tau|phi|varphi|chi|psi|omega|Gamma|Delta|Theta|Lambda|Sigma|Phi|Psi|Omega"
)
FUNCTIONS = frozenset(_FUNCTIONS.split("|"))
GREEK = frozenset(_GREEK.split("|"))
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])"
    r"|(?:\d+\.?\d*|\.\d+)(?:\\(?:overline|bar)\{\d+\})?)"
    r"|\\(?P<command>[A-Za-z]+)|(?P<word>" + "|".join([*sorted(FUNCTIONS, reverse=True), "pi"]) +
    r")(?![A-Za-z])|(?P<letter>[A-Za-z])|(?P<sign>[-+/^_!|(){}\[\]])|(?P<space>\s+)"
)  # fmt: skip


class Unreadable(ValueError):
    """The text is no expression that this module knows."""


def tokens_of(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token; kinds are number, name, letter and sign."""
    tokens: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) > MAX_TOKENS:
            raise Unreadable(text[place : place + 20])
        kind = match.lastgroup or ""
        if kind in ("command", "word"):
            kind = "name"
        if kind != "space":
            tokens.append((kind, match[0].lstrip("\\") if kind == "name" else match[0]))
        place = match.end()
    return tokens


def number_of(text: str) -> Fraction:
    r"""The exact value of a number token, repeating decimals included.

    >>> number_of("0.35"), number_of(r"0.1\overline{6}"), number_of("1,234")
    (Fraction(7, 20), Fraction(1, 6), Fraction(1234, 1))
    """
    text = text.replace(",", "")
    fixed, mark, rest = text.partition("\\")
    fixed = fixed.rstrip(".") if "." not in fixed.rstrip(".") else fixed
    value = Fraction(fixed or "0")
    if mark:
        if "." not in text:
            raise Unreadable(text)
        repeat = rest[rest.index("{") + 1 : -1]
        places = len(fixed.partition(".")[2])
        value += Fraction(int(repeat), (10 ** len(repeat) - 1) * 10**places)
    return value

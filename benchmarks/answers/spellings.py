r"""Other ways to spell the same LaTeX: spaces, sizes, signs, braces.

Each takes a text and returns it in another spelling, or unchanged where it does not apply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Spelling = Callable[[str, random.Random], str]

_TOKEN = re.compile(
    r"\\begin\{array\}\{c+\}|\\(?:begin|end|text|mbox)\{[^}]*\}|\\[A-Za-z]+|\\."
    r"|\.?\d(?:[\d.]|,\d|,\\!|\{,\}|\\,\d|(?<=!) \d)*|[A-Za-z]{2,}|[<>]=|.",
    re.DOTALL,
)
_SIGNS = {
    r"\pi": "\u03c0", r"\infty": "\u221e", "-": "\u2212", r"\cup": "\u222a", r"\pm": "\u00b1",
    r"^\circ": "\u00b0", r"\cdot": "\u00b7",
}  # fmt: skip


def _spaced(text: str, draw: random.Random) -> str:
    if r"\\" in text.replace(r"\\ ", ""):  # escaped
        return text
    tokens = _TOKEN.findall(text)
    marks = ("", "", " ", r"\ ", r"\,", "  ", r"\;")
    spaced: str = tokens[0]
    for before, token in zip(tokens, tokens[1:], strict=False):
        # An argument without braces, an index or a unit stays next to what it belongs to.
        bound = re.match(r"[_^\\]", before) or token in "_^" or re.match(r"\\[!,;%]", token)
        spaced += ("" if bound else draw.choice(marks)) + token
    return spaced


def _without_spaces(text: str, draw: random.Random) -> str:
    if re.search(r"\\(?:text|mbox|[ ,;])|^-?\d+, \d{3}", text):
        return text
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)


def _sized_fraction(text: str, draw: random.Random) -> str:
    return re.sub(r"\\[dt]?frac", lambda m: rf"\{draw.choice('dt')}frac", text)


def _full_braces(text: str, draw: random.Random) -> str:
    text = re.sub(r"\\([dt]?)frac\s*(\d)\s*(\d)", r"\\\1frac{\2}{\3}", text)
    text = re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", text)
    return re.sub(r"([\^_])(\w)", r"\1{\2}", text)


def _few_braces(text: str, draw: random.Random) -> str:
    text = re.sub(r"\\([dt]?)frac\{(\d)\}\{(\d)\}", r"\\\1frac\2\3", text)
    text = re.sub(r"\\sqrt\{(\d)\}", r"\\sqrt\1", text)
    return re.sub(r"([\^_])\{(\w)\}(?!\w)", r"\1\2", text)


def _slash(text: str, draw: random.Random) -> str:
    pattern = (
        r"(?<!\\)\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}(?=\s*(?:$|[,)\]+&-]|\\[\\}cer]))(?!\s*\^)"
    )
    plain = re.sub(pattern, lambda m: "/".join(map(_bracketed, m.groups())), text)
    # A whole number before a fraction made it a mixed number.
    return text if re.search(r"\d\s*\\[dt]?frac", text) else plain


def _bracketed(text: str) -> str:
    return text if re.fullmatch(r"\d+|-\d+(?=$)", text) else f"({text})"


def _sizes(text: str, draw: random.Random) -> str:
    if r"\left" in text:
        return re.sub(r"\\+(?:left|right)(?![a-z])\s*", "", text)
    if re.match(r"[(\[].*[)\]]$", text) and "cup" not in text and text.count("(") < 2:
        return rf"\left{text[:-1]}\right{text[-1]}"
    return text


def _product_sign(text: str, draw: random.Random) -> str:
    if re.search(r"\\(?:text|mbox|begin)|(?<![\\a-z])[a-z]{3}|cm", text):
        return text
    sign = draw.choice((r" \cdot ", r"\times ", "*", r" \ast "))
    pattern = r"(?<![_^\d])(\d+)\s*(?=\\sqrt|\\pi|[a-zA-Z(])"
    return re.sub(pattern, lambda m: m[1] + sign, text)


def _unicode(text: str, draw: random.Random) -> str:
    if r"\begin" in text:
        return text
    for spelling, sign in _SIGNS.items():
        text = re.sub(re.escape(spelling) + r"(?![a-z])\s*", sign, text)
    return text


def _dollars(text: str, draw: random.Random) -> str:
    if r"\$" in text:
        return text
    opening, closing = draw.choice((("$", "$"), (r"\(", r"\)"), ("$", "$."), (r"\[", r"\]")))
    return opening + text + closing


def _full_stop(text: str, draw: random.Random) -> str:
    return text if text.endswith(".") else text + "."


def _style(text: str, draw: random.Random) -> str:
    return draw.choice((r"\displaystyle ", r"\textstyle ", r"\,", " ", r"\ ")) + text


def _escaped(text: str, draw: random.Random) -> str:
    return text if r"\begin" in text else re.sub(r"\\(?=[a-z])", r"\\\\", text)


SPELLINGS: dict[str, Spelling] = {
    "sized fraction": _sized_fraction,
    "full braces": _full_braces,
    "few braces": _few_braces,
    "slash": _slash,
    "sizes": _sizes,
    "product sign": _product_sign,
    "spaces": _spaced,
    "no spaces": _without_spaces,
    "unicode": _unicode,
    "dollars": _dollars,
    "full stop": _full_stop,
    "style": _style,
    "escaped": _escaped,
}

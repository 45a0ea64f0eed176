"""When two answers are one vote."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?", re.ASCII)
_NOISE = re.compile(r"\\left(?![a-z])|\\right(?![a-z])|\\[ ,;:!]|\$|\s+")


def vote_key(answer: str) -> str:
    r"""What an answer votes for: equal keys are one vote.

    Space, dollar signs, `\left` and `\right` do not count, nor does a full stop at the end;
    `\dfrac` and `\tfrac` are `\frac`. A plain decimal number counts by its value, with or without
    thousands commas. Nothing is evaluated: 1/2 and 0.5 are two votes.

    >>> vote_key("$ 1,024.50 $"), vote_key("+007"), vote_key("-0.0"), vote_key(".5")
    ('1024.5', '7', '0', '0.5')
    >>> vote_key(r"\left( \dfrac{1}{2}, 3 \right)."), vote_key("0.5") == vote_key("1/2")
    ('(\\frac{1}{2},3)', False)
    """
    text = _NOISE.sub("", answer).rstrip(".")
    text = text.replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac")
    if not _NUMBER.fullmatch(text) or not any(map(str.isdigit, text)):
        return text
    sign = "-" if text.startswith("-") else ""
    # Digits are compared as text: an answer of 100,000 digits must cost no more than its length.
    whole, _, part = text.lstrip("+-").replace(",", "").partition(".")
    whole, part = whole.lstrip("0") or "0", part.rstrip("0")
    number = f"{whole}.{part}" if part else whole
    return number if number == "0" else sign + number

r"""One form for each reference answer: `#### 72`, `27.0`, `1,080` and `5 \text{ cm}` are numbers.

Only what stands for the same value is changed. Each rule is a function of its own; none makes a
text longer, and `normalized_answer` applies all of them until nothing changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable


_MARKS = re.compile(
    r"\$\$(?P<a>[^$]+)\$\$|\$(?P<b>[^$]+)\$|\\\((?P<c>.+)\\\)|\\\[(?P<d>.+)\\\]", re.S
)
_UNIT = re.compile(
    r"(?P<value>.*?)(?:\\[ ,;:!]|~|\s)*"
    r"\\(?:text|mbox|textrm|textbf|mathrm)\s*\{(?P<unit>[^{}]*)\}(?:\^(?:[0-9]|\{[0-9]\}))?",
    re.S,
)
_CURRENCY = re.compile(
    "(?P<sign>[-+]?)\\s*(?:\\\\?\\$|\u20ac|\u00a3)\\s*(?P<value>\\.?[0-9][0-9,.]*)"
)
_THIN = re.compile(r"(?<=[0-9])\s*(?:,\\!|\{,\}|\\,|\\!)\s*(?=[0-9]{3}(?![0-9]))")
_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
_INTEGRAL = re.compile(r"(?P<sign>[-+]?)0*(?P<digits>[0-9]+)(?:\.0*)?")

# Words after a number that belong to its value, so that they cannot go as a unit can.
_NO_UNIT = re.compile(
    r"hundred|thousand|million|billion|trillion|dozen|percent|half|halves|third|thirds"
    r"|quarter|quarters|fourths|fifths|sixths|eighths|tenths|hundredths|thousandths|and|or"
    r"|to|from|by|mod|modulo|base|remainder|rem|times|choose|if|when|for|where|as|th|st|nd"
    r"|rd|am|pm"
    r"|[^msghlLJNWKCFVA]"  # one letter that is no unit either: a variable, or a part of "a.m."
)


def without_math_marks(text: str) -> str:
    r"""Without the dollars or brackets around all of it.

    >>> without_math_marks(r"$\frac{1}{2}$"), without_math_marks("$1$ or $2$")
    ('\\frac{1}{2}', '$1$ or $2$')
    """
    found = _MARKS.fullmatch(text)
    inside = next(filter(None, found.groups()), "") if found else text
    return text if "\\(" in inside or "\\[" in inside else inside.strip()


def without_full_stop(text: str) -> str:
    """Without the full stop of a sentence after a number or a bracket.

    >>> without_full_stop("72."), without_full_stop("8 a.m."), without_full_stop("1, 2, ...")
    ('72', '8 a.m.', '1, 2, ...')
    """
    return text[:-1].rstrip() if re.search(r"[0-9)}\]$]\.$", text) else text


def without_unit(text: str) -> str:
    r"""Without a unit in ``\text{}`` or its like, and its power, behind a plain number.

    Lists, variables and several units stay as they are, as do words that change the value.

    >>> without_unit(r"864 \mbox{ inches}^2"), without_unit(r"3 \text{ million}")
    ('864', '3 \\text{ million}')
    """
    found = _UNIT.fullmatch(text)
    if found is None:
        return text
    value, words = found["value"], re.findall(r"[A-Za-z]+", found["unit"])
    if not words or any(_NO_UNIT.fullmatch(_cased(word)) for word in words):
        return text
    return value if _is_quantity(value) else text


def _cased(word: str) -> str:
    return word.casefold() if len(word) > 1 else word


def _is_quantity(text: str) -> bool:
    """Whether it is one number, maybe with roots, fractions and pi, but without a letter."""
    letters = re.sub(r"\\[A-Za-z]+", "", text)
    known = not re.search(r"\\(?:text|mbox|textrm|textbf|mathrm|pm|cup|in|to)(?![A-Za-z])", text)
    counted = bool(re.search(r"[0-9]|\\pi", text)) and not re.search(r"[A-Za-z=<>]", letters)
    one = "," not in without_thousands(text.lstrip("\\$-+ "))
    return known and counted and one and text[-1] not in "+-*/_^([{\\"


def without_currency(text: str) -> str:
    r"""Without a sign of money in front of a number.

    >>> without_currency(r"\$18.90"), without_currency("-$5"), without_currency("$x")
    ('18.90', '-5', '$x')
    """
    found = _CURRENCY.fullmatch(text)
    return found["sign"] + found["value"] if found else text


def without_thousands(text: str) -> str:
    r"""Without marks between thousands; a plain comma only where all of the text is one number.

    So `100,200` is a number and `100, 200` is a list, as is `(1,200)`.

    >>> without_thousands("1,080"), without_thousands(r"10,\!080\pi"), without_thousands("1,20")
    ('1080', '10080\\pi', '1,20')
    """
    text = _THIN.sub("", text)
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text


def without_zeros(text: str) -> str:
    """A whole number without decimal zeros, leading zeros and a plus sign.

    >>> without_zeros("27.0"), without_zeros("073"), without_zeros("-0.0"), without_zeros("2.50")
    ('27', '73', '0', '2.50')
    """
    found = _INTEGRAL.fullmatch(text)
    if found is None:
        return text
    digits = found["digits"].lstrip("0") or "0"
    return "-" + digits if found["sign"] == "-" and digits != "0" else digits


RULES: tuple[Callable[[str], str], ...] = (
    str.strip,
    without_math_marks,
    without_full_stop,
    without_unit,
    without_currency,
    without_thousands,
    without_zeros,
)
"""What `normalized_answer` applies, in this order."""


def normalized_answer(text: str) -> str:
    r"""The answer in one form, by all of `RULES`.

    >>> [normalized_answer(text) for text in ("27.0", r"$5.4 \text{ cents}$", r"\$32,\!348.")]
    ['27', '5.4', '32348']
    """
    while True:
        before = text
        for rule in RULES:
            text = rule(text)
        if text == before:
            return text

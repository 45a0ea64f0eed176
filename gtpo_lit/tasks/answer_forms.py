r"""One form for each reference answer: `#### 72`, `27.0`, `1,080` and `5 \text{ cm}` are numbers.

Only what stands for the same value is changed. Each rule is a function of its own; none makes a
text longer, and `normalized_answer` applies all of them until nothing changes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Literal, get_args

from gtpo_lit.tasks.answers import last_boxed

AnswerForm = Literal["auto", "plain", "hashes", "boxed"]

_MARKS = re.compile(
    r"\$\$(?P<a>[^$]+)\$\$|\$(?P<b>[^$]+)\$|\\\((?P<c>.+)\\\)|\\\[(?P<d>.+)\\\]", re.S
)
_BARE_BOX = re.compile(r"\\boxed\s+([^\s${}]+?)(?=[\s$.,]|$)")
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
_NO_UNIT = frozenset(
    "hundred thousand million billion trillion dozen percent half halves third thirds quarter "
    "quarters fourths fifths sixths eighths tenths hundredths thousandths and or to from by mod "
    "modulo base remainder rem times choose if when for where as th st nd rd am pm a p".split()
)
_ONE_LETTER_UNITS = frozenset("m s g h l L J N W K C F V A".split())
_EMPTY = frozenset({"None", "nan", "NaN", "null", "NULL", "N/A", "n/a"})


def check_answer_form(form: str) -> None:
    """Raise `ValueError` unless `form` is one of the known ones."""
    if form not in get_args(AnswerForm):
        raise ValueError(f"answer_form must be one of {get_args(AnswerForm)}, got {form!r}")


def cell_text(cell: object) -> str | None:
    """A cell of a data file as text; None where it holds no single value.

    >>> cell_text(27.0), cell_text(0.5), cell_text(" 7 "), cell_text(["3"])
    ('27', '0.5', '7', '3')
    >>> cell_text(None), cell_text(float("nan")), cell_text(["3", "4"])
    (None, None, None)
    """
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, (bool, int)):
        return str(cell)
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return None
        return without_zeros(format(Decimal(repr(cell)), "f"))
    if isinstance(cell, (list, tuple)) and len(cell) == 1:
        return cell_text(cell[0])
    return None


def after_hashes(text: str) -> str | None:
    """What follows the last ``####``, as in GSM8K; None if there is none.

    >>> after_hashes("Half of 144 is 72. #### 72")
    '72'
    """
    _, mark, rest = text.rpartition("####")
    return rest.strip() if mark else None


def boxed_answer(text: str) -> str | None:
    r"""What the last box of a solution holds, as in MATH; None if no box is complete.

    >>> boxed_answer(r"so $\boxed{\frac{1}{2}}$."), boxed_answer(r"so $\boxed 5$.")
    ('\\frac{1}{2}', '5')
    """
    boxed = last_boxed(text.replace("\\fbox", "\\boxed"))
    if boxed is None and (bare := _BARE_BOX.findall(text)):
        boxed = bare[-1]
    return None if boxed is None else boxed.strip()


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
    if not words or not _NO_UNIT.isdisjoint(word.casefold() for word in words if len(word) > 1):
        return text
    if any(len(word) == 1 and word not in _ONE_LETTER_UNITS for word in words):
        return text
    return value if _is_quantity(value) else text


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


def usable(text: str) -> bool:
    """Whether an answer says anything: it has a letter, a digit or a command, and is no "nan".

    >>> usable("0"), usable(" "), usable("null"), usable("?")
    (True, False, False, False)
    """
    return text not in _EMPTY and any(mark.isalnum() or mark == "\\" for mark in text)


@lru_cache(maxsize=1 << 16)  # copies of a row are common, and large files hold a hundred of each
def reference_answer(text: str, form: AnswerForm, normalize: bool) -> tuple[str, str] | None:
    r"""The reference answer that a cell's text gives.

    Args:
        text: as `cell_text` gives it.
        form: "hashes": what follows the last ``####``; "boxed": what the last box holds;
            "plain": all of it; "auto": the first of these whose mark it has.
        normalize: whether to bring it into one form.

    Returns:
        The answer as rewards compare it, and as it was written; None if it is unusable.

    >>> reference_answer("6 * 180 = 1,080. #### 1,080", "auto", True)
    ('1080', '1,080')
    """
    if form == "auto":
        form = (
            "hashes"
            if "####" in text
            else "boxed"
            if re.search(r"\\(?:boxed|fbox)", text)
            else "plain"
        )
    ways: dict[str, Callable[[str], str | None]] = {
        "hashes": after_hashes,
        "boxed": boxed_answer,
        "plain": str.strip,
    }
    written = ways[form](text)
    if written is None or not usable(written):
        return None
    answer = normalized_answer(written) if normalize else written
    return (answer, written) if usable(answer) else None

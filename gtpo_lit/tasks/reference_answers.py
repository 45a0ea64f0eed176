"""The reference answer that a cell of a data file gives, if it gives a usable one."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Literal, get_args

from gtpo_lit.tasks.answer_forms import normalized_answer, without_zeros
from gtpo_lit.tasks.answers import last_boxed

AnswerForm = Literal["auto", "plain", "hashes", "boxed"]

_BARE_BOX = re.compile(r"\\boxed\s+([^\s${}]+?)(?=[\s$.,]|$)")
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

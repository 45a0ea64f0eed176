r"""Finds the answer in a response.

What stands inside ``<think>`` is never an answer: where a response has think marks, only the text
after the last ``</think>`` is read, and there is no answer if a ``<think>`` is still open.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, get_args

Extract = Literal["whole", "last_equals", "last_number", "boxed", "answer_tag"]

_BRACE = re.compile(r"(?P<box>\\+boxed\s*\{)|\\.|(?P<open>\{)|(?P<close>\})", re.DOTALL)
# A minus is a sign only where no operand stands before it: "10-3" ends in 3, "= -3" in -3.
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])-)?(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?", re.ASCII
)
_ANSWER_TAG = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)


def check_extract(extract: str) -> None:
    """Raise `ValueError` unless `extract` is one of the known ways."""
    if extract not in get_args(Extract):
        raise ValueError(f"extract must be one of {get_args(Extract)}, got {extract!r}")


def after_thinking(text: str) -> str | None:
    """What follows the last closed ``</think>``, the whole text if it has no think marks at all.

    None if a ``<think>`` is not closed.

    >>> after_thinking("<think>2+2=5?</think> 4")
    ' 4'
    >>> after_thinking("<think>2+2=4") is None
    True
    """
    before, mark, rest = text.rpartition("</think>")
    assert mark or not before
    return None if "<think>" in rest else rest


def whole_text(text: str) -> str:
    """All of it."""
    return text


def after_last_equals(text: str) -> str:
    """What follows the last ``=``, or the whole text if it has none.

    >>> after_last_equals("3+4=7;7+8=5"), after_last_equals("5")
    ('5', '5')
    """
    return text.rpartition("=")[2]


def last_number(text: str) -> str | None:
    """The last decimal number, without thousands separators.

    >>> last_number("It costs $1,234.50."), last_number("10-3"), last_number("x = -3")
    ('1234.50', '3', '-3')
    """
    numbers = _NUMBER.findall(text)
    return numbers[-1].replace(",", "") if numbers else None


def last_boxed(text: str) -> str | None:
    r"""What the last complete ``\boxed{}`` holds; braces inside must balance.

    Of nested boxes the inner one counts. One pass, since a degenerate response may hold thousands
    of open boxes.

    >>> last_boxed(r"\boxed{1} so \boxed{\frac{1}{2}} or \boxed{3")
    '\\frac{1}{2}'
    """
    open_braces: list[int | None] = []
    best: tuple[int, int] | None = None
    for match in _BRACE.finditer(text):
        if match["box"]:
            open_braces.append(match.end())
        elif match["open"]:
            open_braces.append(None)
        elif match["close"] and open_braces:
            start = open_braces.pop()
            if start is not None and (best is None or start > best[0]):
                best = (start, match.start())
    return None if best is None else text[best[0] : best[1]]


def last_answer_tag(text: str) -> str | None:
    """What stands in the last complete ``<answer>...</answer>``.

    >>> last_answer_tag("<answer>4</answer> <answer>5")
    '4'
    """
    answers: list[str] = _ANSWER_TAG.findall(text)
    return answers[-1] if answers else None


_WAYS: dict[Extract, Callable[[str], str | None]] = {
    "whole": whole_text,
    "last_equals": after_last_equals,
    "last_number": last_number,
    "boxed": last_boxed,
    "answer_tag": last_answer_tag,
}


def extract_answer(text: str, extract: Extract, *, require_think: bool = False) -> str | None:
    """The answer of a response, without space around it; None if it gives none.

    Args:
        text: the response.
        extract: where the answer stands.
        require_think: a response that never closes ``</think>`` has no answer. For models whose
            prompt already opens ``<think>``.
    """
    if require_think and "</think>" not in text:
        return None
    rest = after_thinking(text)
    answer = None if rest is None else _WAYS[extract](rest)
    return None if answer is None else answer.strip()

"""The answer inside a response."""

from __future__ import annotations

import re
from typing import Literal, get_args

Extract = Literal["whole", "last_equals", "last_number", "boxed", "tag"]

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def extract_answer(response: str, how: Extract) -> str | None:
    r"""The answer that a response gives, without surrounding white space, or None.

    Where a reasoning block is closed by ``</think>``, only what follows it is read.

    Args:
        response: the text of a completion.
        how: "whole" text; what follows the last "="; the last number, thousands commas removed;
            the last complete ``\boxed{}``; the last ``<answer>`` tag.

    Raises:
        ValueError: for an unknown `how`.

    Example:
        >>> extract_answer("3+4=7;7+8=5", "last_equals")
        '5'
        >>> extract_answer(r"so \boxed{\frac{1}{2}}", "boxed")
        '\\frac{1}{2}'
    """
    text = response.rsplit("</think>", 1)[-1]
    if how == "whole":
        return text.strip()
    if how == "last_equals":
        return text.rsplit("=", 1)[-1].strip()
    if how == "last_number":
        numbers = NUMBER.findall(text)
        return numbers[-1].replace(",", "") if numbers else None
    if how == "boxed":
        return _last_box(text)
    if how == "tag":
        tags = TAG.findall(text)
        return tags[-1].strip() if tags else None
    raise ValueError(f"extract must be one of {get_args(Extract)}, got {how!r}")


def _last_box(text: str) -> str | None:
    opening = "\\boxed{"
    start = text.rfind(opening)
    while start >= 0:
        depth = 1
        for place in range(start + len(opening), len(text)):
            depth += {"{": 1, "}": -1}.get(text[place], 0)
            if depth == 0:
                return text[start + len(opening) : place].strip()
        start = text.rfind(opening, 0, start)
    return None

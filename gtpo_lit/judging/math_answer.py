r"""The judge of mathematical answers.

Structure and exact values decide first. Only what this package cannot read goes to math-verify,
which compares to six decimals and forgives much, so its yes counts only where both texts hold the
same numbers and the same letters.
"""

from __future__ import annotations

import logging
import re

from gtpo_lit.judging.comparison import same_answer
from gtpo_lit.judging.latex_text import plain, same_text
from gtpo_lit.judging.structure import depth, structure
from gtpo_lit.judging.tokens import Unreadable

MAX_LENGTH = 2000
"""Characters of the longest answer that is looked at."""

MAX_DEPTH = 50
"""Brackets inside each other, at most; each level is looked through anew."""


def prepare_judge() -> None:
    """Import math-verify and build its grammar, which takes seconds."""
    # It warns that its own time limit is off; the process that this runs in has one.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    _same_by_library("x+1+2", "x+2+1")


def judge(answer: str, reference: str) -> float:
    r"""1.0 if an answer says what the reference says, else 0.0.

    >>> judge(r"\dfrac{1}{2}", r"\frac12"), judge("(1,2)", r"\{1,2\}"), judge("0.5", "1/2")
    (1.0, 0.0, 1.0)
    """
    if max(len(answer), len(reference)) > MAX_LENGTH:
        return 0.0
    answer, reference = plain(answer), plain(reference)
    if not answer or not reference:
        return 0.0
    if same_text(answer, reference):
        return 1.0
    if depth(answer) > MAX_DEPTH:
        return 0.0
    try:
        return float(same_answer(structure(reference), structure(answer)))
    except (Unreadable, RecursionError):
        return float(_same_by_library(answer, reference))
    except ValueError:  # too many parts
        return 0.0


def _same_by_library(answer: str, reference: str) -> bool:
    if _numbers(answer) != _numbers(reference) or _letters(answer) != _letters(reference):
        return False
    import math_verify  # an extra

    return bool(math_verify.verify(_parse(reference), _parse(answer), timeout_seconds=None))


def _parse(text: str) -> list[object]:
    import math_verify

    config = [math_verify.LatexExtractionConfig()]
    parsed: list[object] = math_verify.parse(
        f"${text}$", config, fallback_mode="no_fallback", parsing_timeout=None
    )
    return parsed


def _numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d+", text))


def _letters(text: str) -> list[str]:
    return sorted(re.findall(r"\\?[A-Za-z]+|[<>=]", text))

r"""Finds the answer of a response that has no box."""

from __future__ import annotations

import re

from gtpo_lit.tasks.answers import last_number

_STATED = re.compile(r"answer\s*(?:is|:|=)(?:\s*:)?[ \t*]*\n?([^\n]+)", re.IGNORECASE)
_FORMULA = re.compile(r"\$([^$\n]+)\$|\\\(([^\n]+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


def stated_answer(text: str) -> str | None:
    r"""What follows the last "answer is" or "answer:", else the last formula or number.

    >>> stated_answer("So the answer is $\\frac{1}{2}$."), stated_answer("Thus $x=3$ or so.")
    ('\\frac{1}{2}', 'x=3')
    >>> stated_answer("Final Answer: **12 apples**."), stated_answer("I get 12")
    ('12 apples', '12')
    """
    stated = _STATED.findall(text)
    if stated:
        line = stated[-1].strip()
        if formulas := _formulas(line):
            return formulas[0]
        sentence: str = re.split(r"\.(?:\s|$)", line)[0]
        return sentence.strip(" *") or None
    formulas = _formulas(text)
    return formulas[-1] if formulas else last_number(text)


def _formulas(text: str) -> list[str]:
    return [next(filter(None, groups)).strip() for groups in _FORMULA.findall(text)]

"""Equations and inequalities."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import mpmath

from gtpo_lit.judging.equality import constant_ratio, same_function, variables
from gtpo_lit.judging.expression import Tree, negative, read
from gtpo_lit.judging.structure import Answer, Parts, Relation, structure
from gtpo_lit.judging.tokens import Unreadable

_NAME = r"\\?[A-Za-z]+(?:_\{?\w+\}?)?'?"
_ASSIGNED = re.compile(
    rf"(?:[A-Za-z]|\\[a-z]+)(?:_\{{?\w+\}}?)?'?(?:\s*\(\s*{_NAME}\s*\))?"
    r"|(?:m\s*)?\\angle\s*[A-Z]{1,3}|[A-Z]{2,4}|\|\s*[A-Z]{2}\s*\||\\overline\s*\{[A-Z]{2}\}"
    r"|\\text\{[A-Za-z ]+\}"
)
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le", "=": "=", "\\ne": "\\ne"}


def split_assignment(relation: Relation) -> tuple[str, Answer] | None:
    """Name and value of ``x = 5``, ``f(x) = 2x`` or ``x = 2+3 = 5``; None for anything else.

    A number on the way must be the value: ``x = 4 = 5`` is none.
    """
    if set(relation.signs) != {"="} or not _ASSIGNED.fullmatch(relation.sides[0]):
        return None
    if not all(_may_be(side, relation.sides[-1]) for side in relation.sides[1:-1]):
        return None
    return relation.sides[0].replace(" ", ""), structure(relation.sides[-1])


def _may_be(side: str, value: str) -> bool:
    try:
        left, right = read(side), read(value)
    except Unreadable:
        return side != ""
    return bool(variables(left)) or same_function(left, right)


def worked_out(relation: Relation) -> Answer | None:
    r"""The value that ``2 \cdot 5 = 10`` ends in; None unless all sides are that number."""
    if set(relation.signs) != {"="}:
        return None
    trees = [read(side) for side in relation.sides]
    if any(map(variables, trees)) or not all(same_function(trees[0], tree) for tree in trees[1:]):
        return None
    return structure(relation.sides[-1])


def same_relation(reference: Relation, answer: Relation) -> bool:
    """Whether two relations hold for the same values of the same variables."""
    if len(reference.signs) > 1 or len(answer.signs) > 1:
        return _same_chain(reference, answer) or _same_chain(reference, _reverse(answer))
    left, right = _difference(reference), _difference(answer)
    if not variables(left) or variables(left) != variables(right):
        return False
    ratio = constant_ratio(left, right)
    if ratio is None or (signs := _sign(ratio)) == 0:
        return False
    sign = answer.signs[0] if signs > 0 else _FLIPPED[answer.signs[0]]
    return sign == reference.signs[0]


def as_interval(answer: Answer) -> Answer:
    r"""``1 < x \le 3`` and ``x > 1`` as the intervals they stand for; all else unchanged.

    Only with a bare variable: in the middle of a chain, or alone on one side.
    """
    if isinstance(answer, Parts) and answer.kind == "list":
        return Parts("list", tuple(map(as_interval, answer.items)))
    if not isinstance(answer, Relation) or not set(answer.signs) <= {"<", ">", "\\le", "\\ge"}:
        return answer
    if answer.signs[0] in (">", "\\ge"):
        answer = _reverse(answer)
    sides, signs = answer.sides, answer.signs
    if not set(signs) <= {"<", "\\le"}:
        return answer
    if len(signs) == 1 and re.fullmatch(_NAME, sides[0]):
        sides, signs = ("-\\infty", *sides), ("<", *signs)
    elif len(signs) == 1 and re.fullmatch(_NAME, sides[1]):
        sides, signs = (*sides, "\\infty"), (*signs, "<")
    if len(signs) != 2 or not re.fullmatch(_NAME, sides[1]):
        return answer
    brackets = ("(" if signs[0] == "<" else "[") + (")" if signs[1] == "<" else "]")
    return Parts(brackets, (structure(sides[0]), structure(sides[2])))


def _same_chain(reference: Relation, answer: Relation) -> bool:
    return reference.signs == answer.signs and all(
        same_function(read(left), read(right))
        for left, right in zip(reference.sides, answer.sides, strict=True)
    )


def _reverse(relation: Relation) -> Relation:
    return Relation(relation.sides[::-1], tuple(_FLIPPED[sign] for sign in relation.signs[::-1]))


def _difference(relation: Relation) -> Tree:
    return ("add", read(relation.sides[0]), negative(read(relation.sides[1])))


def _sign(ratio: Any) -> int:
    if isinstance(ratio, Fraction):
        return (ratio > 0) - (ratio < 0)
    if isinstance(ratio, mpmath.mpc):
        return 0
    return int(ratio > 0) - int(ratio < 0)

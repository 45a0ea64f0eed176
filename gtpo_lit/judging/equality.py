"""Whether two expressions are the same function of their variables.

Rational values are compared exactly. Other values are compared to 150 digits relative to their
size, at several points; two formulas that agree at all of them are taken for equal.
"""

from __future__ import annotations

import re
import zlib
from fractions import Fraction
from typing import Any

import mpmath

from gtpo_lit.judging.expression import Tree, read
from gtpo_lit.judging.tokens import number_of
from gtpo_lit.judging.value import DIGITS, Evaluation, Number, Undefined, inexact

POINTS = 6
LEAST_POINTS = 2
DECIMAL_DIGITS = 6
"""Significant digits from which on a decimal may stand for a number that it only rounds."""
FLOAT_DIGITS = 16
"""Significant digits from which on it may stand for the same 64-bit float."""

_DECIMAL = re.compile(r"(-?)\s*(\d*\.\d+)")


def same_value(first: str, second: str) -> bool:
    """Whether two expressions are equal.

    Raises:
        Unreadable: if one of them cannot be read or computed.

    >>> same_value("(x+1)^2", "x^2+2x+1"), same_value("1/2^{99}", "1/2^{98}")
    (True, False)
    >>> same_value("1/3", "0.333333"), same_value("1/3", "0.3333"), same_value("0.35", "7/20")
    (True, False, True)
    """
    left, right = read(first), read(second)
    if not variables(left) | variables(right) and (
        _rounds(first, right, second) or _rounds(second, left, first)
    ):
        return True
    return same_function(left, right)


def same_function(left: Tree, right: Tree) -> bool:
    """Whether two trees have equal values at every point where they are defined.

    Where a root or logarithm of a negative number makes one of them complex, the variables are
    taken to be out of its domain, unless it is complex nearly everywhere.
    """
    names = variables(left) | variables(right)
    real: list[bool] = []
    beyond: list[bool] = []
    with mpmath.workdps(DIGITS):
        for number in range(POINTS if names else 1):
            try:
                evaluation = Evaluation(_point(names, number))
                values = evaluation.value(left), evaluation.value(right)
            except Undefined:
                continue
            equal = _equal(*values, evaluation.scale)
            is_real = not names or not any(isinstance(value, mpmath.mpc) for value in values)
            (real if is_real else beyond).append(equal)
            if real and not real[-1]:
                return False
    needed = LEAST_POINTS if names else 1
    return len(real) >= needed or (all(beyond) and len(real) + len(beyond) >= needed)


def constant_ratio(left: Tree, right: Tree) -> Number | None:
    """The number c for which left = c * right everywhere; None if there is none."""
    names = variables(left) | variables(right)
    with mpmath.workdps(DIGITS):
        for number in range(POINTS):
            try:
                evaluation = Evaluation(_point(names, number))
                above, below = evaluation.value(left), evaluation.value(right)
            except Undefined:
                continue
            if above == 0 or below == 0:
                return None
            ratio: Number = (
                above / below
                if isinstance(above, Fraction) and isinstance(below, Fraction)
                else inexact(above) / inexact(below)
            )
            constant: Tree = ("value", ratio)
            scaled: Tree = ("multiply", constant, right)
            return ratio if same_function(left, scaled) else None
    return None


def variables(tree: Tree) -> set[str]:
    """Names of the variables in a tree."""
    if tree[0] == "variable":
        return {tree[1]}
    return {name for part in tree[1:] if isinstance(part, tuple) for name in variables(part)}


def _equal(first: Number, second: Number, scale: Any) -> bool:
    if isinstance(first, Fraction) and isinstance(second, Fraction):
        return first == second
    first, second = inexact(first), inexact(second)
    size = max(abs(first), abs(second))
    return bool(
        abs(first - second) <= size * mpmath.mpf(10) ** -150 + scale * mpmath.mpf(10) ** -190
    )


def _point(names: set[str], number: int) -> dict[str, Fraction]:
    # Fixed fractions of both signs, different for each name and of no special value.
    point = {}
    for name in names:
        draw = zlib.crc32(f"{name}/{number}".encode())
        size = Fraction(101 + draw % 3001, 1009)
        negative = number == 1 or (number % 2 == 1 and draw % 2 == 1)
        point[name] = -size if negative else size
    return point


def _rounds(text: str, other: Tree, other_text: str) -> bool:
    """Whether `text` is a decimal of six digits or more to which the exact `other` rounds.

    Cutting the digits off counts as rounding. A decimal never rounds another one.
    """
    match = _DECIMAL.fullmatch(text.strip())
    if match is None or _DECIMAL.fullmatch(other_text.strip()):
        return False
    digits = match[2].replace(".", "").lstrip("0")
    if len(digits) < DECIMAL_DIGITS:
        return False
    decimal = number_of(match[2]) * (-1 if match[1] else 1)
    unit = Fraction(1, 10 ** len(match[2].partition(".")[2]))
    with mpmath.workdps(DIGITS):
        try:
            value = Evaluation({}).value(other)
        except Undefined:
            return False
        if isinstance(value, Fraction):
            if (value / unit).denominator == 1:
                return value == decimal
        elif isinstance(value, mpmath.mpc):
            return False
        if len(digits) >= FLOAT_DIGITS and float(value) == float(decimal):
            return True
        value, decimal, unit = inexact(value), inexact(decimal), inexact(unit)
        gap = abs(value - decimal)
        cut_off = abs(decimal) <= abs(value) and gap < unit
        return bool(gap <= unit / 2 or cut_off)

r"""Whether two expressions differ, told by sympy and not by the judge that is measured.

latex2sympy reads them and sympy computes both to 50 digits at three points. The judge has
its own reader and arithmetic; only what it cannot read goes to math-verify, which is built on both.
"""

from __future__ import annotations

import random
import re
from fractions import Fraction
from typing import Any

import sympy

DIGITS = 50
POINTS = 3
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)")


def differ(first: str, second: str) -> bool | None:
    r"""Whether two expressions or equations mean different things; None if sympy cannot tell.

    >>> differ(r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"), differ("x = 0", "-x = 0")
    (True, False)
    """
    plain = [re.sub(r"\\[,!; ]|[\s$]|(?<=\d),(?=\d{3})", "", text) for text in (first, second)]
    if all(_PLAIN.fullmatch(text) for text in plain):
        return Fraction(plain[0]) != Fraction(plain[1])
    if "_" in first + second:  # a base, which latex2sympy takes for an index
        return None
    try:
        left, right = read(first), read(second)
        names = sorted(left.free_symbols | right.free_symbols, key=str)
        points = [_point(names, number) for number in range(POINTS)]
        if first.count("=") != 1 or second.count("=") != 1:
            return any(_far(left.evalf(DIGITS, p), right.evalf(DIGITS, p)) for p in points)
        # Two equations mean the same where their two sides differ by proportional amounts.
        ratios = [(left / right).evalf(DIGITS, point) for point in points]
        return any(_far(ratios[0], ratio) for ratio in ratios[1:])
    except Exception:  # what latex2sympy and sympy raise is of no one kind
        return None


def read(text: str) -> Any:
    """The sympy expression of a LaTeX text; of an equation, one side minus the other."""
    from latex2sympy2_extended import latex2sympy

    text = re.sub(r"\\[dt]frac", r"\\frac", text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)", r"\\frac{\1}", text)
    text = re.sub(r"(\\frac\{[^{}]*\})\s*(\d)", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", text)
    text = re.sub(r"^(-?)(\d+)\s*(\\frac\{\d+\}\{\d+\})$", r"\1(\2+\3)", text)
    left, equals, right = text.partition("=")
    whole = latex2sympy(left) - latex2sympy(right) if equals else latex2sympy(text)
    names = {str(symbol): symbol for symbol in whole.free_symbols}
    constants = {"i": sympy.I, "e": sympy.E, "pi": sympy.pi}
    return whole.subs({names[name]: constants[name] for name in constants.keys() & names.keys()})


def _point(names: list[Any], number: int) -> dict[Any, Any]:
    draw = random.Random(number)
    return {name: sympy.Rational(draw.randint(1009, 9973), 1000) for name in names}


def _far(first: Any, second: Any) -> bool:
    if not (first.is_finite and second.is_finite):
        return bool(first != second)
    size = max(abs(first), abs(second))
    return bool(abs(first - second) > sympy.Float(10, DIGITS) ** -30 * size)

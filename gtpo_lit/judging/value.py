"""What an expression comes to, exactly where it is rational and to 200 digits elsewhere.

Nothing here can blow up: a power, factorial or integer that would be too large to hold is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath

from gtpo_lit.judging.expression import Tree
from gtpo_lit.judging.tokens import Unreadable

DIGITS = 200
MAX_BITS = 200_000
MAX_FACTORIAL = 3000
MAX_EXPONENT = 10**6

Number = Fraction | Any
"""A `Fraction`, or an mpmath real or complex number."""


class Undefined(ArithmeticError):
    """The expression has no value at this point, such as 1/0."""


@dataclass
class Evaluation:
    """Evaluates trees at one point.

    Args:
        point: the value of every variable.

    Attributes:
        scale: the largest number that entered a sum or a function; what cancels leaves an error of
            this size times 10^-200. Zero if the value was reached without either.
    """

    point: Mapping[str, Fraction]
    scale: Any = 0

    def value(self, tree: Tree) -> Number:
        """The value of `tree`.

        Raises:
            Undefined: if there is none here.
            Unreadable: if it is too large to compute.
        """
        kind = tree[0]
        if kind in ("number", "value"):
            return tree[1]
        if kind == "variable":
            return self.point[tree[1]]
        if kind == "call":
            return self._call(tree[1], [self.value(part) for part in tree[2:]])
        left, right = self.value(tree[1]), self.value(tree[2])
        if kind == "power":
            return _power(left, right)
        both = isinstance(left, Fraction) and isinstance(right, Fraction)
        if not both:
            left, right = inexact(left), inexact(right)
        if kind == "multiply":
            return _bounded(left * right)
        if kind == "divide":
            if right == 0:
                raise Undefined("division by zero")
            return _bounded(left / right)
        if not both:
            self.scale = max(self.scale, abs(left), abs(right))
        return _bounded(left + right)

    def _call(self, name: str, values: list[Number]) -> Number:
        if name in ("factorial", "binom"):
            return _counted(name, values)
        if name in _EXACT and isinstance(values[0], Fraction):
            return Fraction(_EXACT[name](values[0]))
        if name == "root":
            return _root(values[0], values[1])
        numbers = [inexact(value) for value in values]
        # mpmath reduces an argument by as many digits as it is long.
        if any(abs(number) > 10**50 for number in numbers):
            raise Unreadable("argument too large")
        self.scale = max(self.scale, 1, *map(abs, numbers))
        try:
            return _bounded(_CALLS[name](*numbers))
        except (ValueError, ZeroDivisionError) as error:
            raise Undefined(name) from error


_EXACT: dict[str, Callable[[Any], Any]] = {"floor": math.floor, "ceil": math.ceil, "abs": abs}
_CALLS: dict[str, Callable[..., Any]] = {
    "pi": lambda: mpmath.mp.pi + 0,
    "e": lambda: mpmath.mp.e + 0,
    "i": lambda: mpmath.mpc(0, 1),
    "ln": mpmath.log,
    "log": lambda value, base=10: mpmath.log(value) / mpmath.log(base),
    "exp": mpmath.exp,
    "abs": abs,
    "floor": mpmath.floor,
    "ceil": mpmath.ceil,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
} | {
    name: getattr(mpmath, name)
    for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
}


def inexact(value: Number) -> Any:
    """The number to 200 digits."""
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return value


def _bounded(value: Number) -> Number:
    if isinstance(value, Fraction):
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
            raise Unreadable("number too long")
    elif value and (not mpmath.isfinite(value) or abs(mpmath.mag(value)) > MAX_BITS):
        raise Unreadable("number too large")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if base == 0:
        if isinstance(exponent, Fraction) and exponent > 0:
            return Fraction(0)
        raise Undefined("power of zero")
    if abs(exponent) > MAX_EXPONENT:
        raise Unreadable("exponent too large")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if bits * abs(exponent) > MAX_BITS and abs(base) != 1:
                raise Unreadable("power too long")
            return Fraction(base**exponent.numerator)
        # Of a negative number the real root, where there is one.
        if base > 0 or exponent.denominator % 2 == 1:
            return _root(_power(base, Fraction(exponent.numerator)), Fraction(exponent.denominator))
    return _bounded(mpmath.power(inexact(base), inexact(exponent)))


def _root(value: Number, degree: Number) -> Number:
    """The real root where there is one; exact if it is rational."""
    if not isinstance(degree, Fraction) or degree.denominator != 1 or not 1 <= degree <= 1000:
        raise Unreadable("degree of a root")
    n = int(degree)
    if not isinstance(value, Fraction) or (value < 0 and n % 2 == 0):
        return _bounded(mpmath.root(inexact(value), n))
    sign, value = (-1 if value < 0 else 1), abs(value)
    above, below = _whole_root(value.numerator, n), _whole_root(value.denominator, n)
    if above is not None and below is not None:
        return Fraction(sign * above, below)
    return sign * mpmath.root(inexact(value), n)


def _whole_root(value: int, n: int) -> int | None:
    if value.bit_length() > 5000:
        return None
    guess = math.isqrt(value) if n == 2 else int(mpmath.nint(mpmath.root(value, n)))
    return guess if guess**n == value else None


def _counted(name: str, values: list[Number]) -> Number:
    if not all(isinstance(value, Fraction) for value in values):
        raise Unreadable(name)
    if any(abs(value) > MAX_FACTORIAL for value in values):
        raise Unreadable(f"{name} too large")
    if all(value.denominator == 1 and value >= 0 for value in values):
        numbers = [int(value) for value in values]
        return Fraction(math.factorial(*numbers) if name == "factorial" else math.comb(*numbers))
    try:
        call = mpmath.factorial if name == "factorial" else mpmath.binomial
        return _bounded(call(*map(inexact, values)))
    except ValueError as error:
        raise Undefined(name) from error

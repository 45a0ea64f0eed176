r"""Reads a LaTeX or plain-text expression into a tree.

A tree is a tuple that starts with its kind: ``("number", Fraction)``, ``("variable", name)``,
``("add", a, b)``, ``("multiply", a, b)``, ``("divide", a, b)``, ``("power", a, b)`` or
``("call", function, a, ...)``. Nothing is computed here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from gtpo_lit.judging.tokens import FUNCTIONS, GREEK, Unreadable, number_of, tokens_of

Tree = tuple[Any, ...]

MAX_DEPTH = 40


def read(text: str) -> Tree:
    r"""The tree of an expression.

    Raises:
        Unreadable: if it is none that is known, or too long or too deep.

    >>> read(r"\sin x^2")
    ('call', 'sin', ('power', ('variable', 'x'), ('number', Fraction(2, 1))))
    """
    reader = _Reader(tokens_of(text))
    tree = reader.sum()
    if reader.kind:
        raise Unreadable(reader.text)
    return tree


class _Reader:
    """Recursive descent over the tokens; `kind` and `text` are the next one's."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0
        self.bars = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.place][0] if self.place < len(self.tokens) else ""

    @property
    def text(self) -> str:
        return self.tokens[self.place][1] if self.place < len(self.tokens) else ""

    def take(self, *texts: str) -> str | None:
        if self.kind in ("sign", "name") and self.text in texts:
            self.place += 1
            return self.tokens[self.place - 1][1]
        return None

    def need(self, text: str) -> None:
        if self.take(text) is None:
            raise Unreadable(f"{text} expected before {self.text!r}")

    def sum(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("too deep")
        tree = self.product()
        while sign := self.take("+", "-"):
            right = self.product()
            tree = ("add", tree, right if sign == "+" else negative(right))
        self.depth -= 1
        return tree

    def product(self) -> Tree:
        tree = self.signed()
        while True:
            if self.take("cdot"):
                tree = ("multiply", tree, self.signed())
            elif self.take("/"):
                tree = ("divide", tree, self.signed())
            elif self.starts_factor():
                if self.kind == "number":
                    raise Unreadable("two numbers side by side")
                tree = ("multiply", tree, self.power())
            else:
                return tree

    def starts_factor(self) -> bool:
        if self.kind == "sign":
            return self.text in "({[" or (self.text == "|" and not self.bars)
        if self.kind == "name":
            return self.text not in ("cdot", "rfloor", "rceil", "le", "ge", "ne", "cup", "in")
        return self.kind in ("number", "letter")

    def signed(self) -> Tree:
        sign, flips = self.take("+", "-"), 0
        while sign:
            flips += sign == "-"
            sign = self.take("+", "-")
        tree = self.power()
        return negative(tree) if flips % 2 else tree

    def power(self) -> Tree:
        whole = self.kind == "number" and "." not in self.text
        tree = self.atom()
        if whole and self.text == "frac":
            tree = self.mixed(tree)
        while True:
            if self.take("!"):
                tree = ("call", "factorial", tree)
            elif self.take("^"):
                if self.take("circ"):
                    pi = ("call", "pi")
                    tree = ("multiply", tree, ("divide", pi, ("number", Fraction(180))))
                else:
                    tree = ("power", tree, self.argument())
            else:
                return tree

    def mixed(self, whole: Tree) -> Tree:
        """A whole number before a proper fraction of whole numbers is added to it."""
        fraction = self.atom()
        above, below = fraction[1], fraction[2]
        if above[0] == below[0] == "number" and 0 < above[1] < below[1]:
            return ("add", whole, fraction)
        return ("multiply", whole, fraction)

    def argument(self) -> Tree:
        """What follows `^`: a group, or one number, letter or name, with or without a sign."""
        if sign := self.take("+", "-"):
            tree = self.argument()
            return negative(tree) if sign == "-" else tree
        return self.atom()

    def digit_argument(self) -> Tree:
        r"""As `argument`, but of bare digits takes one: `\frac43` is 4/3."""
        if self.kind == "number":
            digits = self.text
            if not digits.isdigit():
                raise Unreadable(digits)
            if len(digits) > 1:
                self.tokens[self.place] = ("number", digits[1:])
            else:
                self.place += 1
            return ("number", Fraction(int(digits[0])))
        return self.argument()

    def atom(self) -> Tree:
        kind, text = self.kind, self.text
        self.place += 1
        if kind == "number":
            return ("number", number_of(text))
        if kind == "letter":
            return self.letter(text)
        if kind == "name":
            return self.named(text)
        closing = {"(": ")", "[": "]", "{": "}"}.get(text) if kind == "sign" else None
        if closing:
            bars, self.bars = self.bars, 0
            tree = self.sum()
            self.need(closing)
            self.bars = bars
            return tree
        if kind == "sign" and text == "|":
            self.bars += 1
            tree = self.sum()
            self.need("|")
            self.bars -= 1
            return ("call", "abs", tree)
        raise Unreadable(text or "end of text")

    def letter(self, name: str) -> Tree:
        if self.take("_"):
            return ("variable", name + "_" + self.subscript())
        return ("call", name) if name in ("e", "i") else ("variable", name)

    def subscript(self) -> str:
        if not self.take("{"):
            self.place += 1
            if self.place > len(self.tokens):
                raise Unreadable("end of text")
            return self.tokens[self.place - 1][1]
        parts = []
        while self.kind in ("number", "letter"):
            parts.append(self.text)
            self.place += 1
        self.need("}")
        return "".join(parts)

    def named(self, name: str) -> Tree:
        if name == "pi":
            return ("call", "pi")
        if name in GREEK:
            return ("variable", name + ("_" + self.subscript() if self.take("_") else ""))
        if name == "frac":
            above = self.digit_argument()
            return ("divide", above, self.digit_argument())
        if name == "binom":
            above = self.digit_argument()
            return ("call", "binom", above, self.digit_argument())
        if name == "sqrt":
            degree: Tree = ("number", Fraction(2))
            if self.take("["):
                degree = self.sum()
                self.need("]")
            return ("call", "root", self.digit_argument(), degree)
        if name in ("lfloor", "lceil"):
            tree = self.sum()
            self.need("r" + name[1:])
            return ("call", name[1:], tree)
        if name in FUNCTIONS:
            return self.function(name)
        raise Unreadable(name)

    def function(self, name: str) -> Tree:
        base: tuple[Tree, ...] = ()
        power: Tree | None = None
        if name == "log" and self.take("_"):
            base = (self.digit_argument(),)
        if self.take("^"):
            power = self.argument()
            if power == negative(("number", Fraction(1))):
                name, power = "arc" + name, None
                if name not in FUNCTIONS:
                    raise Unreadable(name)
        call = ("call", name, self.function_argument(), *base)
        return call if power is None else ("power", call, power)

    def function_argument(self) -> Tree:
        if self.kind == "sign" and self.text in "({[|":
            return self.power()
        tree = self.signed()
        while self.starts_factor() and self.text not in FUNCTIONS and self.text not in "([":
            tree = ("multiply", tree, self.power())
        return tree


def negative(tree: Tree) -> Tree:
    """Minus the tree."""
    return ("multiply", ("number", Fraction(-1)), tree)

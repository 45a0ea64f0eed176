r"""Other forms of the same value or structure: reordered, converted, worked out.

Each takes a text and returns another answer with the same meaning, or the text itself where it does
not apply.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from fractions import Fraction

from benchmarks.answers.difference import read
from benchmarks.answers.pieces import Structured, structured, terms

Form = Callable[[str, random.Random], str]
_FRACTION = re.compile(r"(-?)\\[dt]?frac\{(\d+)\}\{(\d+)\}")
_NUMBER = re.compile(r"-?\d+")


GE = r"\ge"


def each_member(change: Form) -> Form:
    """The form that changes every member of a structure."""

    def changed(text: str, draw: random.Random) -> str:
        whole = structured(text)
        members = tuple(change(member, draw) for member in whole.members)
        return Structured(whole.before, members, whole.separators, whole.after).text

    return changed


def _decimal(text: str, draw: random.Random) -> str:
    match = _FRACTION.fullmatch(text)
    if match is None:
        return text
    value = Fraction(int(match[2]), int(match[3]))
    for places in range(1, 13):
        scaled = value * 10**places
        if scaled.denominator == 1:
            digits = str(scaled.numerator).rjust(places + 1, "0")
            return f"{match[1]}{digits[:-places]}.{digits[-places:]}"
    return text


def _fraction(text: str, draw: random.Random) -> str:
    match = re.fullmatch(r"(-?)(\d*)\.(\d+)", text)
    if match is None:
        return text
    value = Fraction(f"{match[2] or 0}.{match[3]}")
    return rf"{match[1]}\frac{{{value.numerator}}}{{{value.denominator}}}"


def _expanded_fraction(text: str, draw: random.Random) -> str:
    k = draw.randint(2, 9)
    return re.sub(
        r"\\([dt]?)frac\{(\d+)\}\{(\d+)\}",
        lambda m: rf"\{m[1]}frac{{{k * int(m[2])}}}{{{k * int(m[3])}}}",
        text,
    )


def _mixed_number(text: str, draw: random.Random) -> str:
    match = _FRACTION.fullmatch(text)
    if match is None or int(match[2]) < int(match[3]) or int(match[2]) % int(match[3]) == 0:
        return text
    whole, rest = divmod(int(match[2]), int(match[3]))
    return rf"{match[1]}{whole}\frac{{{rest}}}{{{match[3]}}}"


def _inner_sign(text: str, draw: random.Random) -> str:
    return re.sub(r"^-\\([dt]?)frac\{([^{}+-]*)\}", r"\\\1frac{-\2}", text)


def _zeros(text: str, draw: random.Random) -> str:
    if re.fullmatch(r"-?\d+", text):
        return text + draw.choice((".0", ".00"))
    return text + "0" * draw.randint(1, 3) if re.fullmatch(r"-?\d*\.\d+", text) else text


def _leading_zero(text: str, draw: random.Random) -> str:
    return re.sub(r"^(-?)(?=\d*\.?\d+$)", r"\g<1>0", text)


def _thousands(text: str, draw: random.Random) -> str:
    mark = draw.choice((",", "{,}", r"\,", r",\!", ""))
    match = re.fullmatch(r"(-?)(\d+|\d{1,3}(?:,(?:\\! ?)?\d{3})+)", text)
    if match is None:
        return text
    digits = re.sub(r"\D", "", match[2])
    return match[1] + f"{int(digits):,}".replace(",", mark)


def _power_of_ten(text: str, draw: random.Random) -> str:
    digits = re.sub(r",(?:\\!\s*)?", "", text)
    match = re.fullmatch(r"([1-9])(\d*?)(0*)", digits)
    if match is None or len(digits) < 4:
        return text
    mantissa = match[1] + ("." + match[2] if match[2] else "")
    sign = draw.choice((r"\times", r"\cdot"))
    return rf"{mantissa} {sign} 10^{{{len(digits) - 1}}}"


def _terms_reordered(text: str, draw: random.Random) -> str:
    parts = terms(text)
    if len(parts) < 2 or "=" in text or r"\pm" in text or r"\text" in text:
        return text
    draw.shuffle(parts)
    first = parts[0].removeprefix("+")
    return first + "".join(part if part[0] in "+-" else "+" + part for part in parts[1:])


def _members_reordered(text: str, draw: random.Random) -> str:
    whole = structured(text)
    if whole.ordered or len(whole.members) < 2:
        return text
    members = list(whole.members)
    draw.shuffle(members)
    return Structured(whole.before, tuple(members), whole.separators, whole.after).text


def _list_or_set(text: str, draw: random.Random) -> str:
    whole = structured(text)
    if len(whole.members) < 2 or whole.ordered or re.search(r"cup|\\text|\\\$", text):
        return text
    inner = ", ".join(whole.members)
    last = ", ".join(whole.members[:-1]) + rf" \text{{ and }} {whole.members[-1]}"
    return draw.choice((rf"\{{{inner}\}}", rf"\left\{{ {inner} \right\}}", inner, last))


def _both_signs(text: str, draw: random.Random) -> str:
    if re.search(r"\\pm", text) is None or len(structured(text).members) > 1:
        return text
    return re.sub(r"\\pm\s*", "+", text) + ", " + re.sub(r"\\pm\s*", "-", text)


def _inequality(text: str, draw: random.Random) -> str:
    whole = structured(text)
    if not whole.ordered or len(whole.members) != 2 or "matrix" in text:
        return text
    low, high = whole.members
    left, right = whole.before.strip()[-1], whole.after.strip()[-1]
    # Two round brackets may be a point.
    if left + right == "()" and "infty" not in text:
        return text
    below, above = ("<", r"\le")[left == "["], ("<", r"\leq")[right == "]"]
    if "infty" in high:
        return f"x {'>' if left == '(' else draw.choice((GE, '>='))} {low}"
    if "infty" in low:
        return f"x {above} {high}"
    return f"{low} {below} x {above} {high}"


def _within(text: str, draw: random.Random) -> str:
    interval = re.fullmatch(r"(?:\\left)?\s*[(\[].*infty.*[)\]]|\[.*[)\]]|[(\[].*\]", text)
    free = interval and "begin" not in text
    return rf"x \in {text}" if free and r"\in" not in text.replace(r"\infty", "") else text


def _matrix_brackets(text: str, draw: random.Random) -> str:
    if "pmatrix" not in text:
        return text
    inner = text.removeprefix(r"\begin{pmatrix}").removesuffix(r"\end{pmatrix}")
    columns = "c" * (inner.partition(r"\\")[0].count("&") + 1)
    opening, closing = draw.choice((("\\left(", "\\right)"), ("\\left[", "\\right]"), ("[", "]")))
    array = rf"\begin{{array}}{{{columns}}}{inner}\end{{array}}"
    plain = rf"\begin{{matrix}}{inner}\end{{matrix}}"
    bare = text.replace("pmatrix", draw.choice(("bmatrix", "matrix", "Bmatrix")))
    return draw.choice((bare, opening + array + closing, opening + plain + closing))


def _named(text: str, draw: random.Random) -> str:
    value = re.fullmatch(r"-?\d+|-?\\[dt]?frac\{\d+\}\{\d+\}|\d*\\sqrt\{\d+\}", text)
    return f"{draw.choice('xnyk')} = {text}" if value else re.sub(r"^x\s*=\s*(?=-?\d+$)", "", text)


def _equation(text: str, draw: random.Random) -> str:
    left, equals, right = text.partition("=")
    left, right = left.strip(), right.strip()
    if (
        not equals
        or re.search(r"[<>]|\\[lg]e", text)
        or re.fullmatch("[a-z]", left)
        and not re.search(r"(?<!\\)\b[a-z]", right)
    ):
        return text
    k = draw.randint(2, 9)
    return draw.choice(
        (f"{right} = {left}", f"{left} - ({right}) = 0", f"{k}({left}) = {k}({right})",
         f"0 = {right} - ({left})")
    )  # fmt: skip


def _into_the_root(text: str, draw: random.Random) -> str:
    match = re.fullmatch(r"(-?)(\d+)\s*\\sqrt\{?(\d+)\}?", text)
    return text if match is None else rf"{match[1]}\sqrt{{{int(match[2]) ** 2 * int(match[3])}}}"


def _root_as_power(text: str, draw: random.Random) -> str:
    if r"\begin" in text:
        return text
    return re.sub(r"\\sqrt\{(\d+)\}", lambda m: f"({m[1]})^{{{draw.choice(('1/2', '0.5'))}}}", text)


def _by_sympy(text: str, draw: random.Random) -> str:
    """The formula expanded, factored or over one denominator, as sympy writes it."""
    import sympy

    formula = re.search(r"\\sqrt|\\pi|[a-z]", text)
    other = r"[=.\[,<>%]|circ|text|mbox|pm|infty|_|begin|[A-Z]|(?<![\\a-z])[a-z]{3}"
    if formula is None or re.search(other, text):
        return text
    try:
        change = draw.choice((sympy.expand, sympy.factor, sympy.together, sympy.radsimp))
        return str(sympy.latex(change(read(text))))
    except Exception:  # sympy cannot read it
        return text


FORMS: dict[str, Form] = {
    "members reordered": _members_reordered,
    "list or set": _list_or_set,
    "both signs": _both_signs,
    "inequality": _inequality,
    "within": _within,
    "matrix brackets": _matrix_brackets,
    "equation": _equation,
    "decimal": each_member(_decimal),
    "fraction": each_member(_fraction),
    "mixed number": each_member(_mixed_number),
    "inner sign": each_member(_inner_sign),
    "zeros": each_member(_zeros),
    "leading zero": each_member(_leading_zero),
    "thousands": _thousands,
    "power of ten": _power_of_ten,
    "into the root": each_member(_into_the_root),
    "by sympy": each_member(_by_sympy),
    "terms reordered": each_member(_terms_reordered),
    "expanded fraction": _expanded_fraction,
    "root as power": _root_as_power,
    "named": _named,
}

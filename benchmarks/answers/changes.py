"""Changes that turn a number or a formula into another one.

Each gives all the results of changing one place; nothing where it does not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from benchmarks.answers.pieces import changed_once, terms

Change = Callable[[str], list[str]]


def _number_changes() -> dict[str, Change]:
    """Changes of one number of a member."""
    return {
        "digit": lambda text: [
            other for step in (1, 4, 7) for other in changed_once(text, r"\d", _raised(step))
        ],
        "off by one": lambda text: [
            other
            for step in (1, -1)
            for other in changed_once(text, r"(?<![\d.,])\d+(?![\d.,])", _plus(step))
        ],
        "digits swapped": lambda text: changed_once(text, r"(\d)(?!\1)\d", lambda m: m[0][::-1]),
        "digit doubled": lambda text: changed_once(text, r"\d", lambda m: m[0] * 2),
        "digit dropped": lambda text: changed_once(text, r"\d(?=\d)", lambda m: ""),
        "point moved": lambda text: changed_once(
            text, r"(\d?)\.(\d)", lambda m: f"{m[1]}{m[2]}." if m.end() < len(text) else m[1] + m[2]
        ),
        "near miss": lambda text: (
            [f"{text}.0001", f"{text}.000000001"] if re.fullmatch(r"-?\d+", text) else []
        ),
    }


def _plus(step: int) -> Callable[[re.Match[str]], str]:
    return lambda match: str(abs(int(match[0]) + step))


def _formula_changes() -> dict[str, Change]:
    """Changes of one sign, term, factor, letter or function of a member."""
    return {
        "sign": _sign,
        "term dropped": lambda text: [
            "".join(kept).removeprefix("+")
            for place in range(len(terms(text)))
            if (kept := [term for other, term in enumerate(terms(text)) if other != place])
            and "=" not in text
        ],
        "term doubled": lambda text: [
            f"{text} {term if term[0] in '+-' else '+' + term}"
            for term in terms(text)
            if len(terms(text)) > 1 and "=" not in text
        ],
        "factor dropped": lambda text: [
            other
            for pattern in (r"(?<![\d.,^{/])\d+ ?(?=\\sqrt|\\pi|[a-zA-Z(])", r"\\pi(?![a-z])",
                            r"(?<![a-zA-Z\\])[a-zA-Z](?:\^\d)?(?![a-zA-Z=])", r"\([^()]*\)")
            for other in changed_once(text, pattern, lambda m: "")
        ],
        "fraction turned": lambda text: changed_once(
            text, r"\\([dt]?)frac\{([^{}]*)\}\{([^{}]*)\}",
            lambda m: rf"\{m[1]}frac{{{m[3]}}}{{{m[2]}}}",
        ) + changed_once(text, r"(\d+)/(\d+)", lambda m: f"{m[2]}/{m[1]}"),
        "root dropped": lambda text: changed_once(
            text, r"\\sqrt(?:\{([^{}]*)\}|(\d))", lambda m: f"({m[1] or m[2]})"
        ),
        "power dropped": lambda text: changed_once(
            text, r"\^(?!\\circ)(?:\w|\{\w+\})", lambda m: ""
        ),
        "letter": lambda text: changed_once(
            text, r"(?<![a-zA-Z\\])[a-zA-Z](?![a-zA-Z])", lambda m: "w" if m[0] != "w" else "u"
        ),
        "function": lambda text: changed_once(
            text, r"\\(?:cot|tan|sin)\b",
            lambda m: {"c": r"\tan", "t": r"\cot", "s": r"\cos"}[m[0][1]],
        ),
    }  # fmt: skip


def _raised(step: int) -> Callable[[re.Match[str]], str]:
    return lambda match: str((int(match[0]) + step) % 10)


def _sign(text: str) -> list[str]:
    flipped = changed_once(text, r"(?<=[\w})]) ?[-+] ?(?=[\w\\(])", _other_sign)
    if "=" not in text:
        flipped.append(text[1:] if text.startswith("-") else "-" + text)
    return flipped


def _other_sign(match: re.Match[str]) -> str:
    return match[0].translate(str.maketrans("+-", "-+"))


CHANGES = _number_changes() | _formula_changes()

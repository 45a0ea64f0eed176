"""Right answers: references in another form."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from benchmarks.answers.forms import FORMS
from benchmarks.answers.references import Pair
from benchmarks.answers.spellings import SPELLINGS

_DEGREES = ("^{\\circ}", r" \text{ degrees}", "\u00b0", r"^\circ", "", r"\degree", " degrees")
_UNITS = {
    r"\text{ cm}": (
        r"\text{cm}",
        " cm",
        r"\ \mathrm{cm}",
        r"\text{ centimeters}",
        "",
        r"\,\text{cm}",
    ),
    r"\text{ cm}^2": (r"\text{ square centimeters}", r" \mathrm{cm}^2", r"\text{ cm}^{2}", ""),
    r"\text{ inches}^2": (r"\text{ square inches}", r"\text{ sq in}", r"\text{ in}^2", ""),
    r"\text{ cents}": (" cents", r"\text{cents}", ""),
}
_WORDS = (
    r"\text{{{}}}",
    r"\textbf{{{}}}",
    r"\mathrm{{{}}}",
    "{}",
    r"\text{{ {} }}",
    r"\mbox{{{}}}",
)


def with_unit(reference: str, draw: random.Random) -> str:
    """Degrees, units, money, percent, bases and words in another spelling."""
    text = reference.replace(r"\mbox", r"\text")
    if match := re.fullmatch(r"(.*?)\s*(?:\^\\circ|\\text\{ degrees\})", text):
        return match[1] + draw.choice(_DEGREES)
    for unit, spellings in _UNITS.items():
        if text.endswith(unit):
            return text.removesuffix(unit).strip() + draw.choice(spellings)
    if match := re.fullmatch(r"\\\$(.*)", text):
        return draw.choice((match[1], rf"{match[1]} \text{{ dollars}}", f"${text}$"))
    if match := re.fullmatch(r"(\d+)\\%", text):
        hundredth = f"{int(match[1]) / 100:.2f}"
        return draw.choice((match[1], match[1] + "%", match[1] + r" \%", hundredth))
    if match := re.fullmatch(r"(\d+)_\{?(\d+)\}?", text):
        return draw.choice((rf"{match[1]}_{{{match[2]}}}", f"{match[1]}_{match[2]}", match[1]))
    if match := re.fullmatch(r"\\text\{(\(?\w+\)?)\}", text):
        word = draw.choice((match[1], match[1].lower(), match[1].upper()))
        word = match[1] if len(match[1]) <= 3 else word
        return draw.choice(_WORDS).format(word if draw.random() < 0.7 else word.strip("()"))
    return reference


def rewritten(text: str, draw: random.Random, done: Sequence[str] = ()) -> tuple[str, list[str]]:
    """A text under one to three rules, forms before spellings, and their names.

    Rules that do not apply leave the text alone, so it may come back unchanged.

    Args:
        text: an answer.
        draw: of all choices.
        done: names of rules that it has gone through already; they count.
    """
    names, wanted = list(done), draw.randint(1, 3)
    for rules in (FORMS, SPELLINGS):
        for name in draw.sample(list(rules), len(rules)):
            if len(names) >= wanted or (rules is FORMS and names and draw.random() < 0.5):
                break
            changed = rules[name](text, draw)
            if changed != text:
                text = changed
                names.append(name)
    return text, names


def make_rewrites(references: Sequence[str], number: int, *, seed: int = 0) -> list[Pair]:
    """Different right answers that are not the reference itself, the same for the same seed."""
    draw = random.Random(seed)
    found: dict[Pair, None] = {}
    while len(found) < number:
        reference = draw.choice(references)
        start = with_unit(reference, draw)
        answer, names = rewritten(start, draw, ["unit"] * (start != reference))
        if answer != reference:
            found[Pair(", ".join(names), reference, answer)] = None
    return list(found)

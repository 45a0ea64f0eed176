r"""Wrong answers: references with one thing changed.

A mutant can be right all the same, such as `x - y = 0` for `y - x = 0`. Whether it is, is not asked
of the judge. One change touches one member; a list, point, interval or matrix with one member
changed is another one exactly if that member is another one. So only the member before and after
is compared, by sympy (`difference.differ`), and the mutant left out where both are equal. Changes
of structure (a bracket, a unit, a missing member) make no equal answer where they are made.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.answers.changes import CHANGES
from benchmarks.answers.difference import differ
from benchmarks.answers.pieces import Structured, changed_once, structured
from benchmarks.answers.references import Pair
from benchmarks.answers.rewrites import rewritten

UNITS = {
    r"\text{ cm}": (r"\text{ m}", r"\text{ cm}^2", r"\text{ mm}", r"\text{ in}", r"\%"),
    r"\text{ meters}": (r"\text{ miles}", r"\text{ feet}", r"\text{ m}^2", r"^\circ"),
    r"\text{ hours}": (r"\text{ minutes}", r"\text{ days}", r"\text{ seconds}"),
    r"\text{ dollars}": (r"\text{ cents}", r"\text{ euros}", r"\%"),
    "^\\circ": (r"\%", r"\text{ radians}", r"\text{ cm}"),
    r"\%": (r"^\circ", r"\text{ dollars}"),
}


class Draft(NamedTuple):
    """A changed reference; `parts` are the member before and after, if one was changed."""

    answer: str
    parts: tuple[str, str] | None = None


def drafts(reference: str, kind: str) -> list[Draft]:
    """What one kind of change makes of a reference; nothing where it does not apply."""
    if re.search(r"\\(?:text|mbox)\{[^}]*\d", reference):
        return []
    whole = structured(reference)
    if kind in CHANGES:
        return [
            Draft(whole.replaced(place, draft.answer), draft.parts)
            for place, member in enumerate(whole.members)
            for draft in _of_member(member, kind)
        ]
    return [Draft(text) for text in _STRUCTURAL[kind](whole) if text != reference]


def _of_member(member: str, kind: str) -> list[Draft]:
    if len(structured(member).members) > 1:  # an interval of a union
        return drafts(member, kind)
    # A unit is no part of the number; a name has no terms.
    found = re.fullmatch(r"(.*?)(\s*\\(?:text|mbox)\{.*|\s*\^\\circ|)", member, re.DOTALL)
    assert found
    number, unit = found.groups()
    if not number or "\\infty" in number:
        return []
    return [
        Draft(other + unit, (number, other))
        for other in CHANGES[kind](number)
        if other.strip(" -+") and other != number
    ]


def _swapped(whole: Structured) -> list[str]:
    members = whole.members
    if not whole.ordered or "\\infty" in whole.text:
        return []
    return [
        Structured(whole.before, (*members[:i], members[i + 1], members[i], *members[i + 2 :]),
                   whole.separators, whole.after).text
        for i in range(len(members) - 1)
        if differ(members[i], members[i + 1]) is not False
    ]  # fmt: skip


def _member_dropped(whole: Structured) -> list[str]:
    members, marks = whole.members, whole.separators
    if len(members) < 2:
        return []
    first = Structured(whole.before, members[1:], marks[1:], whole.after)
    return [first.text, Structured(whole.before, members[:-1], marks[:-1], whole.after).text]


def _member_added(whole: Structured) -> list[str]:
    # Not one that is there already: a set is the same set with a member twice.
    if whole.separators and "cup" not in whole.text and "pm" not in whole.text:
        return [whole.text[: len(whole.text) - len(whole.after)] + f",{8641}" + whole.after]
    return [f"{whole.text}, 8641"] if re.fullmatch(r"-?\d+", whole.text) else []


def _brackets(whole: Structured) -> list[str]:
    found = []
    if len(whole.members) == 2 and whole.ordered and "matrix" not in whole.before:
        if "infty" not in whole.members[0]:
            found.append(changed_once(whole.text, r"[(\[]", _other_bracket)[0])
        if "infty" not in whole.members[1]:
            found.append(changed_once(whole.text, r"[)\]]", _other_bracket)[-1])
    if "cup" in whole.text:
        found += changed_once(whole.text, r"[(\[](?!-\\infty)", _other_bracket)
    return found


def _other_bracket(match: re.Match[str]) -> str:
    return match[0].translate(str.maketrans("()[]", "[]()"))


def _shape(whole: Structured) -> list[str]:
    """A point as a set or a list, a list as a point."""
    inner = ", ".join(whole.members)
    if len(whole.members) < 2 or "cup" in whole.text or "matrix" in whole.text:
        return []
    if whole.ordered:
        return [] if "in [" in whole.text else [rf"\{{{inner}\}}", inner]
    return [f"({inner})", f"[{inner}]"]


def _relation(whole: Structured) -> list[str]:
    return changed_once(whole.text, "=", lambda m: "<") + changed_once(
        whole.text, "=", lambda m: r"\ne "
    )


def _word(whole: Structured) -> list[str]:
    match = re.fullmatch(r"\\text\{\(?(\w+)\)?\}", whole.text)
    if not match:
        return []
    if len(match[1]) == 1:
        return [rf"\text{{({letter})}}" for letter in "ABCDE" if letter != match[1]]
    return [
        rf"\text{{{word}}}" for word in (match[1][::-1], match[1][1:], "none", "not " + match[1])
    ]


_STRUCTURAL: dict[str, Callable[[Structured], list[str]]] = {
    "coordinates swapped": _swapped,
    "member dropped": _member_dropped,
    "member added": _member_added,
    "bracket": _brackets,
    "shape": _shape,
    "relation": _relation,
    "word": _word,
}
TRIES = 50
"""Draws of one kind before another is taken: few references have a bracket to change."""
KINDS = (*CHANGES, *_STRUCTURAL, "unit")


def with_other_unit(reference: str, draw: random.Random) -> Pair | None:
    """The reference with a unit, its own or one that it is given, against another unit."""
    own = re.fullmatch(r"(\\\$)?(.*?)(\s*\\(?:text|mbox)\{.*|\^\\circ|)", reference, re.DOTALL)
    assert own
    number, unit = own[2], own[3]
    if not re.fullmatch(r"[-\d.,\\!]+|\\d?frac\{?\d+\}?\{?\d+\}?", number):
        return None
    if own[1] or unit not in ("", "^\\circ"):
        strange = [r"\text{ miles}", r"\text{ hours}", r"\text{ kg}", r"\text{ liters}^3"]
        return Pair("unit", reference, number + draw.choice(strange))
    unit = unit or draw.choice(list(UNITS))
    return Pair("unit", number + unit, number + draw.choice(UNITS[unit]))


class Mutants(NamedTuple):
    """Wrong answers, and those that sympy found to be right."""

    wrong: list[Pair]
    equal: list[Pair]
    undecided: int
    """How many of `wrong` changed a member that sympy could not read."""


def make_mutants(
    shaped: Sequence[str], plain: Sequence[str], number: int, *, seed: int = 0
) -> Mutants:
    """Different wrong answers, the same for the same seed.

    Args:
        shaped: references with some structure; three of four mutants are theirs.
        plain: further references.
        number: how many wrong answers.
        seed: of all choices.
    """
    draw = random.Random(seed)
    wrong: dict[Pair, bool] = {}
    equal: dict[Pair, None] = {}
    while len(wrong) < number:
        kind = draw.choice(KINDS)
        for _ in range(TRIES):
            reference = draw.choice(shaped if draw.random() < 0.75 else plain)
            pair, parts = _mutant(reference, kind, draw)
            if pair is not None and pair not in wrong and pair not in equal:
                # sympy reads R as r.
                verdict = differ(*parts) if parts and kind != "letter" else True
                if verdict is False:
                    equal[pair] = None
                else:
                    wrong[_in_another_form(pair, draw)] = verdict is None
                break
    return Mutants(list(wrong), list(equal), sum(wrong.values()))


def _in_another_form(pair: Pair, draw: random.Random) -> Pair:
    """Every other mutant is rewritten besides, so that no comparison of spellings finds it."""
    if draw.random() < 0.5:
        return pair
    answer, names = rewritten(pair.answer, draw)
    return Pair(", ".join((pair.kind, *names)), pair.reference, answer)


def _mutant(
    reference: str, kind: str, draw: random.Random
) -> tuple[Pair | None, tuple[str, str] | None]:
    if kind == "unit":
        return with_other_unit(reference, draw), None
    options = drafts(reference, kind)
    if not options:
        return None, None
    draft = draw.choice(options)
    return Pair(kind, reference, draft.answer), draft.parts

"""Compares two answers by their structure, down to exact values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from gtpo_lit.judging.equality import same_value
from gtpo_lit.judging.latex_text import same_text
from gtpo_lit.judging.relations import as_interval, same_relation, split_assignment, worked_out
from gtpo_lit.judging.structure import Answer, Leaf, Parts, Relation, Word
from gtpo_lit.judging.units import BASE, PERCENT

UNORDERED = ("list", "set", "union")


def same_answer(reference: Answer, answer: Answer) -> bool:
    """Whether `answer` says what `reference` says.

    Raises:
        Unreadable: if an expression in it is beyond what can be read, and nothing else decides.
    """
    if isinstance(reference, Relation) and isinstance(answer, Relation):
        first, second = split_assignment(reference), split_assignment(answer)
        if first and second and first[0] == second[0]:
            return same_answer(first[1], second[1])
        return same_relation(reference, answer)
    reference, answer = _values(reference, answer)
    if isinstance(reference, Parts) or isinstance(answer, Parts):
        return _same_parts(as_interval(reference), as_interval(answer))
    if isinstance(reference, Word) or isinstance(answer, Word):
        return _word(reference) == _word(answer) is not None
    if isinstance(reference, Leaf) and isinstance(answer, Leaf):
        return _same_leaf(reference, answer)
    return False


def _values(reference: Answer, answer: Answer) -> tuple[Answer, Answer]:
    """Where one side is `x = value` and the other no relation, the value stands for it."""
    return _value(reference), _value(answer)


def _value(answer: Answer) -> Answer:
    if not isinstance(answer, Relation):
        return answer
    if assigned := split_assignment(answer):
        return assigned[1]
    return worked_out(answer) or answer


def _same_parts(reference: Answer, answer: Answer) -> bool:
    if not isinstance(reference, Parts) or not isinstance(answer, Parts):
        return False
    kinds = {reference.kind, answer.kind}
    if len(kinds) > 1 and kinds not in ({"list", "set"}, {"list", "union"}):
        return False
    if len(reference.items) != len(answer.items):
        return False
    if reference.kind in UNORDERED:
        return _same_in_any_order(reference.items, answer.items)
    return all(map(same_answer, reference.items, answer.items))


def _same_in_any_order(reference: Sequence[Answer], answer: Sequence[Answer]) -> bool:
    """Each once: a repeated member needs a partner of its own."""
    left = list(answer)
    for item in reference:
        found = next((place for place, other in enumerate(left) if _same_item(item, other)), None)
        if found is None:
            return False
        left.pop(found)
    return True


def _same_item(reference: Answer, answer: Answer) -> bool:
    # Items of a union may be written as relations: x < 2 or x > 3.
    if isinstance(reference, Parts) != isinstance(answer, Parts):
        return _same_parts(as_interval(reference), as_interval(answer))
    return same_answer(reference, answer)


def _word(answer: Answer) -> str | None:
    if isinstance(answer, Word):
        return answer.text
    if isinstance(answer, Leaf) and re.fullmatch(r"[A-Za-z]", answer.text):
        return answer.text.lower()
    return None


def _same_leaf(reference: Leaf, answer: Leaf) -> bool:
    if reference.unit == answer.unit:
        return same_number(reference.text, answer.text)
    if reference.unit is not None and answer.unit is not None:
        return False
    if (answer.unit or "").startswith(BASE):
        # A reference without a base is decimal; one with a base says how the answer is written.
        return answer.unit == f"{BASE} 10" and same_number(reference.text, answer.text)
    if PERCENT not in (reference.unit, answer.unit):
        return same_number(reference.text, answer.text)
    if reference.unit == PERCENT:
        return same_number(reference.text, answer.text) or same_number(
            f"({reference.text})/100", answer.text
        )
    # A percent sign that the reference lacks is a factor of 1/100; only where the reference is
    # above 1 can it also be a unit that the reference leaves out.
    return same_number(reference.text, f"({answer.text})/100") or (
        _above_one(reference.text) and same_number(reference.text, answer.text)
    )


def same_number(first: str, second: str) -> bool:
    """Whether two expressions are equal; infinities only by sign."""
    if "\\infty" in first or "\\infty" in second:
        return first.replace(" ", "") == second.replace(" ", "")
    if same_text(first, second):
        return True
    return same_value(first, second)


def _above_one(text: str) -> bool:
    try:
        return abs(Fraction(text.replace(",", ""))) > 1
    except (ValueError, ZeroDivisionError):
        return False

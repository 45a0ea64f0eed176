from __future__ import annotations

import datetime

import pytest

from gtpo_lit.tasks.reference_answers import (
    boxed_answer,
    cell_text,
    check_answer_form,
    reference_answer,
    usable,
)


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (" 72 ", "72"),
        (72, "72"),
        (27.0, "27"),
        (-1.0, "-1"),
        (0.1, "0.1"),
        (1e-7, "0.0000001"),
        (1e21, "1" + "0" * 21),
        (True, "True"),
        (["7"], "7"),
        (["7", "8"], None),
        ([], None),
        ({"a": 1}, None),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (datetime.date(2024, 1, 1), None),
    ],
)
def test_cells_become_text_or_nothing(cell, text):
    assert cell_text(cell) == text


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("He has 6. #### 7\n#### 1,080 ", "auto", ("1080", "1,080")),
        ("#### $72.00", "hashes", ("72", "$72.00")),
        ("72", "hashes", None),
        ("72 ####", "hashes", None),
        (r"so $\boxed{\frac{1}{2}}$.", "auto", (r"\frac{1}{2}", r"\frac{1}{2}")),
        (r"\boxed{1} then \boxed{5\text{ cm}}", "boxed", ("5", r"5\text{ cm}")),
        (r"so \boxed{5", "boxed", None),
        (r"so \boxed{5", "auto", None),
        ("a long solution", "boxed", None),
        (r"\boxed{7}", "plain", (r"\boxed{7}", r"\boxed{7}")),
        ("27.0", "plain", ("27", "27.0")),
        ("", "auto", None),
        ("   ", "plain", None),
        ("None", "plain", None),
        ("nan", "auto", None),
        ("?", "auto", None),
        ("#### -", "auto", None),
        (r"\boxed{}", "auto", None),
        ("0", "auto", ("0", "0")),
        (r"\emptyset", "auto", (r"\emptyset", r"\emptyset")),
    ],
)
def test_the_answer_that_a_text_gives(text, form, expected):
    assert reference_answer(text, form, True) == expected


def test_forms_stay_as_written_without_normalisation():
    assert reference_answer("#### 1,080", "auto", False) == ("1,080", "1,080")


def test_boxes_without_braces_and_framed_ones():
    assert boxed_answer(r"It is $\boxed 5$.") == "5"
    assert boxed_answer(r"\fbox{12}") == "12"
    assert boxed_answer("no box") is None


def test_usable_and_unknown_form():
    assert [usable(text) for text in ("x", "7", "\\infty", "", ".", "N/A")] == [True] * 3 + [
        False
    ] * 3
    with pytest.raises(ValueError, match=r"answer_form must be one of .* got 'box'"):
        check_answer_form("box")

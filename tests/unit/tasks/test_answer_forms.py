"""Each rule on a table written by hand: what it changes, and what it must leave alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.tasks import answer_forms as forms

# rule, text, what becomes of it
TABLE = [
    (forms.without_math_marks, "$5$", "5"),
    (forms.without_math_marks, "$$ x^2 $$", "x^2"),
    (forms.without_math_marks, r"\(\frac{1}{2}\)", r"\frac{1}{2}"),
    (forms.without_math_marks, r"\[7\]", "7"),
    (forms.without_math_marks, "$1$ or $2$", "$1$ or $2$"),
    (forms.without_math_marks, r"\(1\) or \(2\)", r"\(1\) or \(2\)"),
    (forms.without_math_marks, "$5", "$5"),
    (forms.without_math_marks, "(1,2)", "(1,2)"),
    (forms.without_full_stop, "72.", "72"),
    (forms.without_full_stop, r"\frac{1}{2}.", r"\frac{1}{2}"),
    (forms.without_full_stop, "1, 2, ...", "1, 2, ..."),
    (forms.without_full_stop, "8 a.m.", "8 a.m."),
    (forms.without_full_stop, "0.5", "0.5"),
    (forms.without_unit, r"5.4 \text{ cents}", "5.4"),
    (forms.without_unit, r"864 \mbox{ inches}^2", "864"),
    (forms.without_unit, r"15\mbox{ cm}^2", "15"),
    (forms.without_unit, r"15\text{ cm}^{3}", "15"),
    (forms.without_unit, r"7\,\mathrm{m}", "7"),
    (forms.without_unit, r"\frac{270}7\text{ degrees}", r"\frac{270}7"),
    (forms.without_unit, r"8\pi \text{ square feet}", r"8\pi"),
    (forms.without_unit, r"3 \sqrt{2}\text{ miles per hour}", r"3 \sqrt{2}"),
    (forms.without_unit, r"1,080\text{ men}", "1,080"),
    (forms.without_unit, r"\text{Evelyn}", r"\text{Evelyn}"),
    (forms.without_unit, r"\text{(C)}", r"\text{(C)}"),
    (forms.without_unit, r"3 \text{ million}", r"3 \text{ million}"),
    (forms.without_unit, r"3 \text{ Million dollars}", r"3 \text{ Million dollars}"),
    (forms.without_unit, r"5\text{th}", r"5\text{th}"),
    (forms.without_unit, r"8:00 \text{ a.m.}", r"8:00 \text{ a.m.}"),
    (forms.without_unit, r"8:00 \text{ PM}", r"8:00 \text{ PM}"),
    (forms.without_unit, r"2\text{x}", r"2\text{x}"),
    (forms.without_unit, r"12_{\text{nine}}", r"12_{\text{nine}}"),
    (forms.without_unit, r"5 \text{ or } 7", r"5 \text{ or } 7"),
    (forms.without_unit, r"2\text{ ft }3\text{ in}", r"2\text{ ft }3\text{ in}"),
    (forms.without_unit, r"x = 5\text{ cm}", r"x = 5\text{ cm}"),
    (forms.without_unit, r"3, 5\text{ cm}", r"3, 5\text{ cm}"),
    (forms.without_unit, r"3 \pm 1\text{ cm}", r"3 \pm 1\text{ cm}"),
    (forms.without_unit, r"5\%", r"5\%"),
    (forms.without_unit, r"90^\circ", r"90^\circ"),
    (forms.without_currency, r"\$18.90", "18.90"),
    (forms.without_currency, "$5", "5"),
    (forms.without_currency, "-$5", "-5"),
    (forms.without_currency, "\u20ac7", "7"),
    (forms.without_currency, "$x$", "$x$"),
    (forms.without_currency, r"\$5 and \$6", r"\$5 and \$6"),
    (forms.without_thousands, "1,080", "1080"),
    (forms.without_thousands, "-1,234,567.50", "-1234567.50"),
    (forms.without_thousands, r"10,\!080", "10080"),
    (forms.without_thousands, r"11,\! 111,\! 111,\! 100", "11111111100"),
    (forms.without_thousands, "1{,}080", "1080"),
    (forms.without_thousands, r"10\,000\pi", r"10000\pi"),
    (forms.without_thousands, "1,20", "1,20"),
    (forms.without_thousands, "1, 200", "1, 200"),
    (forms.without_thousands, "(1,200)", "(1,200)"),
    (forms.without_thousands, "0,100", "0,100"),
    (forms.without_thousands, "1,-2", "1,-2"),
    (forms.without_thousands, r"1\,2345", r"1\,2345"),
    (forms.without_zeros, "27.0", "27"),
    (forms.without_zeros, "27.", "27"),
    (forms.without_zeros, "025", "25"),
    (forms.without_zeros, "+5", "5"),
    (forms.without_zeros, "-0.0", "0"),
    (forms.without_zeros, "-10.00", "-10"),
    (forms.without_zeros, "0", "0"),
    (forms.without_zeros, "2.50", "2.50"),
    (forms.without_zeros, "052_8", "052_8"),
    (forms.without_zeros, "9" * 5000 + ".0", "9" * 5000),  # longer than int() takes
]


@pytest.mark.parametrize(("rule", "text", "expected"), TABLE)
def test_one_rule(rule, text, expected):
    assert rule(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"  $\$32,\!348$. ", "32348"),
        (r"\(1,080.00\text{ cm}^2\)", "1080"),
        ("$ 27.0 $", "27"),
        (r"\left( 3, \frac{\pi}{2} \right)", r"\left( 3, \frac{\pi}{2} \right)"),
        (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty, 2) \cup (3, \infty)"),
        (
            r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
            r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
        ),
        ("x^5 - x^4 + 1", "x^5 - x^4 + 1"),
        (".0000672", ".0000672"),
    ],
)
def test_all_rules_together(text, expected):
    assert forms.normalized_answer(text) == expected


def test_every_rule_has_a_row_that_it_changes_and_one_that_it_leaves():
    for rule in forms.RULES[1:]:
        assert {text == expected for used, text, expected in TABLE if used is rule} == {True, False}


PIECES = st.sampled_from(
    ["$", "\\$", "1", "0", "25", ",", ",\\!", "{,}", "000", ".", " ", "\\text{ cm}", "^2", "-", "+"]
    + ["\\text{ million}", "x", "\\(", "\\)", "\\frac{1}{2}", "(", ")", "\\,", "\\pi", "_8"]
)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_a_second_time_changes_nothing_and_no_text_grows(text):
    once = forms.normalized_answer(text)
    assert forms.normalized_answer(once) == once
    assert len(once) <= len(text)


@given(st.integers(-(10**12), 10**12))
def test_every_form_of_an_integer_is_the_integer(value):
    grouped = f"{value:,}"
    for text in (str(value), f"{value}.0", f"${value}$", grouped, grouped.replace(",", ",\\!")):
        assert forms.normalized_answer(text) == str(value)
    assert forms.normalized_answer(rf"{grouped} \text{{ kg}}") == str(value)

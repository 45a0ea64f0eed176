from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtpo_lit.tasks.answers import (
    Extract,
    after_last_equals,
    after_thinking,
    check_extract,
    extract_answer,
    last_answer_tag,
    last_boxed,
    last_number,
)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{840}., but **Final Answer** \boxed{840}", "840"),
        (r"\boxed{004} so \boxed{004}", "004"),
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"\boxed{7} then \boxed{8", "7"),
        (r"\boxed{\boxed{4}}", "4"),
        (r"\boxed {x}", "x"),
        (r"\\boxed{5}", "5"),
        (r"\boxed{[0, 1\}}", r"[0, 1\}"),
        ("} { \\boxed{3} {", "3"),
        ("\\boxed{}", ""),
        (r"\boxed{\frac{1}{2}", None),
        ("42", None),
        ("", None),
    ],
)
def test_last_boxed(text: str, answer: str | None) -> None:
    assert last_boxed(text) == answer


def test_thousands_of_open_boxes_take_no_time() -> None:
    start = time.perf_counter()
    assert last_boxed(r"\boxed{9} " + r"\boxed{" * 50_000) == "9"
    assert last_answer_tag("<answer>9</answer>" + "<answer>" * 50_000) == "9"
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("3+4=7;7+8=5;5+1=6;6+9=5", "5"),
        ("10-3", "3"),
        ("the result is -3.", "-3"),
        ("(-3)", "-3"),
        ("x=-3", "-3"),
        ("$1,234,567.50", "1234567.50"),
        ("1,2", "2"),
        ("1,2345", "2345"),
        ("4 - 5", "5"),
        ("none", None),
    ],
)
def test_last_number(text: str, answer: str | None) -> None:
    assert last_number(text) == answer


def test_after_last_equals() -> None:
    assert after_last_equals("3+4=7;7+8=5;5+1=6;6+9=5") == "5"
    assert after_last_equals("5") == "5"
    assert after_last_equals("3+4=") == ""


def test_last_answer_tag() -> None:
    assert last_answer_tag("<answer>1</answer><answer>\n2</answer>") == "\n2"
    assert last_answer_tag("<answer>1</answer></answer>") == "1"
    assert last_answer_tag("<answer>1 <answer>2</answer>") == "2"
    assert last_answer_tag("<answer>1") is None


def test_only_text_after_the_closed_think_counts() -> None:
    assert after_thinking("no marks") == "no marks"
    assert after_thinking("<think>a</think>b") == "b"
    assert after_thinking("prompt opened it</think>b") == "b"
    assert after_thinking("<think>a</think>b<think>c") is None
    assert extract_answer(r"<think>\boxed{1}</think>none", "boxed") is None
    assert extract_answer("<think>x=1", "last_equals") is None
    assert extract_answer("x=1", "last_equals", require_think=True) is None
    assert extract_answer("</think> x= 1 ", "last_equals", require_think=True) == "1"


def test_unknown_way_is_refused() -> None:
    with pytest.raises(ValueError, match="extract must be one of .* got 'latex'"):
        check_extract("latex")


@given(st.text(alphabet="ab1{}\\ =", max_size=30))
def test_a_balanced_box_at_the_end_is_found_after_any_text_without_boxes(before: str) -> None:
    assert last_boxed(before + r" \boxed{\frac{1}{2}}") == r"\frac{1}{2}"


@settings(max_examples=60)
@given(
    st.text(alphabet="<>/answerboxed\\{}=-.,01 ", max_size=60),
    st.sampled_from(["last_equals", "last_number", "boxed", "answer_tag"]),
)
def test_any_text_gives_a_part_of_it_or_nothing(text: str, extract: Extract) -> None:
    answer = extract_answer(text, extract)
    assert answer is None or answer in text.replace(",", "") or answer in text

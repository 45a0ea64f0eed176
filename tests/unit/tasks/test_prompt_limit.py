"""Long questions are cut in the middle; what stands around them is not touched."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.tasks.prompt_limit import CUT_MARK, cut_text


def test_start_and_end_stay():
    assert cut_text("abcdefghij", lambda text: len(text) <= 11) == "abcdefghij"
    assert cut_text("abcdefghijklm", lambda text: len(text) <= 11) == "abc ... klm"
    assert cut_text("abcdefghijklm", lambda text: len(text) <= 12) == "abc ... klm"
    assert cut_text("abcdefghijklm", lambda text: len(text) <= 6) is None


@given(st.text(max_size=60), st.integers(0, 70))
def test_as_much_as_fits_by_few_questions(text, limit):
    asked = []

    def fits(shorter):
        asked.append(shorter)
        return len(shorter) <= limit

    cut = cut_text(text, fits)
    assert len(asked) <= 8
    if len(text) <= limit:
        assert cut == text
    elif cut is not None:
        side = (limit - len(CUT_MARK)) // 2
        side = min(side, (len(text) - 1) // 2)
        assert cut == text[:side] + CUT_MARK + text[-side:]
    else:
        assert limit < len(CUT_MARK) + 2 or len(text) < 3


def test_texts_too_short_to_cut_give_nothing():
    assert [cut_text(text, lambda text: False) for text in ("", "a", "ab", "abc")] == [None] * 4

from __future__ import annotations

import pytest

from gtpo_lit.tasks.columns import ColumnMap, cell, check_columns

ROW = {"prompt": [{"content": "2+2?", "role": "user"}], "a.b": 7, "a": {"b": 8}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("prompt.0.content", "2+2?"),
        ("prompt.1.content", None),
        ("prompt.x", None),
        ("prompt.0.content.more", None),
        ("a.b", 7),  # a column of that very name comes first
        ("a", {"b": 8}),
        ("gone", None),
    ],
)
def test_paths_lead_into_nested_columns(path, value):
    assert cell(ROW, path) == value


def test_missing_columns_are_errors_that_name_those_there_are():
    columns = list(ROW)
    check_columns({"columns.question": "prompt.0.content"}, columns, ROW)
    with pytest.raises(
        ValueError, match=r"columns.answer: there is no column 'answer'; the columns are prompt, a"
    ):
        check_columns({"columns.answer": "answer"}, columns, ROW)
    with pytest.raises(ValueError, match=r"columns.answer: column 'prompt' holds nothing at '0.x'"):
        check_columns({"columns.answer": "prompt.0.x"}, columns, ROW)


def test_only_columns_in_use_are_named():
    assert ColumnMap(id="n").named() == {"question": "question", "answer": "answer", "id": "n"}

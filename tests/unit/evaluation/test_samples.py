from __future__ import annotations

import pyarrow.parquet
import pytest

from gtpo_lit.evaluation import SampleFile
from gtpo_lit.types import Completion, Graded, Problem


def graded(name: str, answers: tuple[str | None, ...] | None) -> Graded:
    return Graded(
        problem=Problem(id=name, question="2+2?", answer="4", source="sums"),
        completions=(
            Completion(token_ids=(9, 1), text="4", finish_reason="stop"),
            Completion(token_ids=(7, 7, 7), text="777", finish_reason="length"),
        ),
        reward=(1.25, 0.0),
        correct=(True, False),
        components={"accuracy": (1.0, 0.0), "format": (0.5, 0.0)},
        answers=answers,
        prompt_ids=(5, 6),
    )


def test_every_sample_is_a_row_with_all_that_is_known(tmp_path) -> None:
    path = tmp_path / "deep" / "a.parquet"
    file = SampleFile(path, decode=lambda ids: "+".join(map(str, ids)))
    # A batch whose answers are all null comes first: the column must still be text.
    file.add([graded("a/0", None)])
    file.add([])
    file.add([graded("a/1", ("4", None)), graded("a/2", ("4", "777"))])
    assert not path.exists()
    file.close()
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == 6
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 2
    rows = table.to_pylist()
    assert rows[2] == {
        "problem": "a/1",
        "source": "sums",
        "question": "2+2?",
        "reference": "4",
        "sample": 0,
        "prompt": "5+6",
        "prompt_ids": [5, 6],
        "text": "4",
        "token_ids": [9, 1],
        "tokens": 2,
        "finish_reason": "stop",
        "answer": "4",
        "correct": True,
        "reward": 1.25,
        "reward/accuracy": 1.0,
        "reward/format": 0.5,
    }
    assert [row["answer"] for row in rows] == [None, None, "4", None, "4", "777"]
    assert [row["tokens"] for row in rows] == [2, 3] * 3
    assert [path.name for path in path.parent.iterdir()] == ["a.parquet"]


def test_without_a_sample_there_is_no_file(tmp_path) -> None:
    file = SampleFile(tmp_path / "a.parquet")
    file.add([])
    file.close()
    assert list(tmp_path.iterdir()) == []


def test_a_second_evaluation_replaces_the_first(tmp_path) -> None:
    for answers in (("4", "5"), ("6", "7")):
        file = SampleFile(tmp_path / "a.parquet")
        file.add([graded("a/0", answers)])
        file.close()
    rows = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert [row["answer"] for row in rows] == ["6", "7"]
    assert rows[0]["prompt"] is None


@pytest.mark.parametrize("text", ["", "\x00 null", "\u00e9\U0001f600"])
def test_any_text_comes_back(tmp_path, text) -> None:
    done = Completion(token_ids=(1,), text=text, finish_reason="stop")
    problem = Problem(id="a", question=text, answer="")
    file = SampleFile(tmp_path / "a.parquet")
    file.add([Graded(problem=problem, completions=(done,), reward=(0.0,), correct=(False,))])
    file.close()
    (row,) = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert (row["text"], row["question"], row["prompt_ids"]) == (text, text, [])

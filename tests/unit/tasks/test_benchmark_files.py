"""The public benchmark files load whole, and every problem is the row that it came from."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from gtpo_lit.tasks.contamination import find_contamination
from gtpo_lit.tasks.contamination.__main__ import read_sources

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(
    not os.environ.get("GTPO_LIT_DATA"), reason="GTPO_LIT_DATA names no folder of benchmark files"
)
SIZES = {
    "gsm8k_train": 7473,
    "gsm8k_test": 1319,
    "math500": 500,
    "aime24": 30,
    "amc23": 40,
}


@pytest.fixture
def sources(dataset_cache):
    train, validation = read_sources([ROOT / "configs/data/local.yaml"])
    return {"gsm8k_train": train, "gsm8k_test": validation.pop("gsm8k"), **validation}


def test_every_file_loads_whole_and_round_trips(sources):
    assert {name: len(source) for name, source in sources.items()} == SIZES
    for name, source in sources.items():
        text = (Path(os.environ["GTPO_LIT_DATA"]) / f"{name}.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
        problems = [source.problem(index) for index in range(len(source))]
        assert [problem.metadata["row"] for problem in problems] == list(range(len(rows)))
        for row, problem in zip(rows, problems, strict=True):
            assert problem.question == (row.get("problem") or row["question"]).strip()
            written = str(row["answer"]).rpartition("####")[2].strip()
            expected = str(int(row["answer"])) if name == "amc23" else written
            assert problem.metadata["written"] == expected
        ids = [problem.id for problem in problems]
        assert len(set(ids)) == len(ids)
        if name == "math500":
            assert ids == [f"math500/{row['unique_id']}" for row in rows]


def test_gsm8k_aime_and_amc_answers_are_whole_numbers(sources):
    for name in ("gsm8k_train", "gsm8k_test", "aime24", "amc23"):
        source = sources[name]
        for index in range(len(source)):
            problem = source.problem(index)
            assert re.fullmatch(r"0|-?[1-9][0-9]*", problem.answer)
            assert int(problem.answer) == int(problem.metadata["written"].replace(",", ""))


def test_the_answers_of_math500_that_change_form(sources):
    source = sources["math500"]
    problems = [source.problem(index) for index in range(len(source))]
    changed = {
        p.metadata["written"]: p.answer for p in problems if p.metadata["written"] != p.answer
    }
    assert changed == {
        r"\frac{270}7\text{ degrees}": r"\frac{270}7",
        r"10,\!080": "10080",
        r"11,\! 111,\! 111,\! 100": "11111111100",
        r"\$32,\!348": "32348",
        r"864 \mbox{ inches}^2": "864",
        r"5.4 \text{ cents}": "5.4",
        "58,500": "58500",
        r"\$18.90": "18.90",
        r"15\mbox{ cm}^2": "15",
        r"\$36": "36",
    }


def test_gsm8k_train_against_the_evaluation_sets(sources):
    train = sources.pop("gsm8k_train")
    hits = find_contamination(train, sources, n=13)
    # The same stories with other numbers, which is how GSM8K was written.
    assert [(hit.train.id, hit.evaluation.id, hit.stretches) for hit in hits] == [
        ("gsm8k/1314", "gsm8k_test/602", 7),
        ("gsm8k/5162", "gsm8k_test/602", 7),
        ("gsm8k/20", "gsm8k_test/632", 13),
        ("gsm8k/406", "gsm8k_test/581", 3),
    ]
    assert [round(hit.coverage, 3) for hit in hits] == [0.538, 0.538, 0.295, 0.103]


def test_a_copied_problem_is_found(sources):
    copied = sources["math500"]
    hits = find_contamination(copied, {"math500": copied}, n=13)
    whole = {hit.train.id for hit in hits if hit.train.id == hit.evaluation.id}
    assert len(whole) == len(copied)

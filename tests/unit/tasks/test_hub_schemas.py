"""Every overlay of configs/data/ reads rows with the columns that its hub set has.

The sets themselves are not downloaded here: the rows are made up, their columns and types are those
that the sets have, and their oddities (copies, wrappers, solutions in place of answers) are kept.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gtpo_lit.tasks import DatasetSource, MixtureSource
from gtpo_lit.tasks.contamination.__main__ import read_sources

ROOT = Path(__file__).parents[3]
OVERLAYS = sorted((ROOT / "configs" / "data").glob("*.yaml"))
DAPO_START = (
    "Solve the following math problem step by step. The last line of your response should be of "
    "the form Answer: $Answer (without quotes) where $Answer is the answer to the problem.\n\n"
)
DAPO_END = '\n\nRemember to put your answer on its own line after "Answer:".'


def dapo(question, answer, key, source="math_dapo"):
    return {
        "data_source": source,
        "prompt": [{"content": DAPO_START + question + DAPO_END, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": key},
    }


GSM8K = [{"question": "What is 7+8?", "answer": "7+8=<<7+8=15>>15\n#### 1,500"}]
# (path, config, split): rows, and what the first becomes: (id, question, answer)
HUB = {
    ("openai/gsm8k", "main", "train"): (GSM8K, ("gsm8k/0", "What is 7+8?", "1500")),
    ("openai/gsm8k", "main", "test"): (GSM8K, ("gsm8k_test/0", "What is 7+8?", "1500")),
    ("DigitalLearningGmbH/MATH-lighteval", "default", "train"): (
        [
            {
                "problem": "What is $1/2$?",
                "level": "Level 1",
                "solution": r"It is $0.5 = \boxed{\frac{1}{2}}$.",
                "type": "Algebra",
            }
        ],
        ("math/0", "What is $1/2$?", r"\frac{1}{2}"),
    ),
    ("BytedTsinghua-SIA/DAPO-Math-17k", None, "train"): (
        [dapo("What is 2+2?", "4", "9a9b"), dapo("What is 3+3?", "6", "1c2d")] * 100,
        ("dapo_math_17k/9a9b", "What is 2+2?", "4"),
    ),
    ("HuggingFaceH4/aime_2024", None, "train"): (
        [
            {
                "id": 60,
                "problem": "Find $n$.",
                "solution": r"\boxed{25}",
                "answer": "025",
                "url": "https://example.org",
                "year": "2024",
            }
        ],
        ("aime24/60", "Find $n$.", "25"),
    ),
    ("math-ai/aime25", None, "test"): (
        [{"problem": "Find $n$.", "answer": "70", "id": "0"}],
        ("aime25/0", "Find $n$.", "70"),
    ),
    ("HuggingFaceH4/MATH-500", None, "test"): (
        [
            {
                "problem": "Find $x$.",
                "solution": r"so $\boxed{10,\!080}$",
                "answer": r"10,\!080",
                "subject": "Algebra",
                "level": 2,
                "unique_id": "test/algebra/1.json",
            }
        ],
        ("math500/test/algebra/1.json", "Find $x$.", "10080"),
    ),
    ("math-ai/amc23", None, "test"): (
        [{"id": 0, "question": "How far?", "answer": "27.0", "url": "https://example.org"}],
        ("amc23/0", "How far?", "27"),
    ),
}


@pytest.fixture
def hub(monkeypatch):
    import datasets

    def load_dataset(path, name=None, split=None, revision=None):
        return datasets.Dataset.from_list(HUB[path, name, split][0])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)


def sources_of(path, tmp_path):
    """All sources of an overlay; the command that reads them wants a set of either kind."""
    toy = "{class_path: gtpo_lit.tasks.ChainSource, init_args: {size: 1}}"
    first = tmp_path / "first.yaml"
    first.write_text(f"data: {{problems: {toy}, validation: {{toy: {toy}}}}}")
    problems, validation = read_sources([first, path])
    found = [problems, *validation.values()]
    parts = [part for source in found for part in getattr(source, "sources", {"": source}).values()]
    return [source for source in parts if isinstance(source, DatasetSource)]


@pytest.mark.parametrize("path", OVERLAYS, ids=lambda path: path.stem)
def test_overlays_read_rows_of_their_hub_sets(path, hub, tmp_path):
    for source in sources_of(path, tmp_path):
        if source.path.startswith("$"):
            continue
        rows, first = HUB[source.path, source.config, source.split]
        problem = source.problem(0)
        assert (problem.id, problem.question, problem.answer) == first
        assert source.report.rows == len(rows)


def test_every_recorded_set_has_its_overlay(tmp_path):
    found = {
        (source.path, source.config, source.split)
        for path in OVERLAYS
        for source in sources_of(path, tmp_path)
        if not source.path.startswith("$")
    }
    assert found == set(HUB)


def test_a_hundred_copies_of_each_row_become_one(hub, tmp_path):
    (source,) = sources_of(ROOT / "configs/data/dapo_math_17k.yaml", tmp_path)
    assert [source.problem(at).id for at in range(len(source))] == [
        "dapo_math_17k/9a9b",
        "dapo_math_17k/1c2d",
    ]
    assert source.note() == (
        "BytedTsinghua-SIA/DAPO-Math-17k: 200 rows read, 198 exact duplicates dropped, 2 problems"
    )


def test_an_aime_file_with_32_copies_becomes_30_problems(monkeypatch, tmp_path):
    import datasets

    rows = [dapo(f"Problem {n}?", f"{n:03d}", n, source="aime") for n in range(30)] * 32
    monkeypatch.setattr(
        datasets, "load_dataset", lambda path, **options: datasets.Dataset.from_list(rows)
    )
    (like,) = sources_of(ROOT / "configs/data/dapo_math_17k.yaml", tmp_path)
    source = DatasetSource("aime", "BytedTsinghua-SIA/AIME-2024", columns=like.columns)
    assert len(source) == 30
    assert source.report.duplicates == 930
    assert [source.problem(at).answer for at in (0, 7, 29)] == ["0", "7", "29"]


def test_the_mixture_takes_one_of_gsm8k_for_three_of_math(hub, tmp_path):
    toy = tmp_path / "toy.yaml"
    toy.write_text(
        "data: {validation: {toy: {class_path: gtpo_lit.tasks.ChainSource, init_args: {size: 1}}}}"
    )
    mixture, _ = read_sources([ROOT / "configs/data/gsm8k_and_math.yaml", toy])
    assert isinstance(mixture, MixtureSource)
    sources = [mixture.problem(at).source for at in range(8)]
    assert (len(mixture), sources.count("gsm8k"), sources.count("math")) == (10000, 2, 6)

"""Shared runs of words are found, whatever the case, spacing and signs; turns of phrase are not."""

from __future__ import annotations

import json

import pytest

from gtpo_lit.tasks import ProblemSource
from gtpo_lit.tasks.contamination import find_contamination, stretches, words
from gtpo_lit.tasks.contamination.__main__ import main
from gtpo_lit.types import Problem


class Texts(ProblemSource):
    def __init__(self, name: str, *questions: str) -> None:
        self.name, self.questions = name, questions

    def __len__(self) -> int:
        return len(self.questions)

    def problem(self, index: int) -> Problem:
        self.check_index(index)
        return Problem(id=f"{self.name}/{index}", question=self.questions[index], answer="1")


LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"


def pairs(hits):
    return [(hit.train.id, hit.evaluation.id, hit.stretches, hit.coverage) for hit in hits]


def test_words_and_stretches():
    assert words("A_b 1.5\\frac{x}{y}") == ["a", "b", "1", "5", "frac", "x", "y"]
    assert stretches("a b c", 3) == ["a b c"]
    assert stretches("a b", 3) == ["=a b"]


def test_hits_are_listed_with_their_coverage():
    train = Texts("t", "nothing in common", "So: ONE, two\nthree four five!", LONG)
    evaluation = {
        "e": Texts("e", "one two three four five six", LONG, "other words than those are here")
    }
    hits = find_contamination(train, evaluation, n=5)
    # LONG has 15 words and 11 stretches of five; the first problem has two of its own.
    assert pairs(hits) == [
        ("t/2", "e/0", 2, 1.0),
        ("t/2", "e/1", 11, 1.0),
        ("t/1", "e/0", 1, 0.5),
        ("t/1", "e/1", 1, 1 / 11),
    ]
    assert hits[2].example == "one two three four five"


def test_thirteen_words_are_a_hit_by_default_and_twelve_are_none():
    twelve, thirteen = (" ".join(LONG.split()[:count]) for count in (12, 13))
    evaluation = {"e": Texts("e", LONG)}
    assert find_contamination(Texts("t", twelve + " and then more of it"), evaluation) == []
    assert pairs(find_contamination(Texts("t", thirteen + " and more"), evaluation)) == [
        ("t/0", "e/0", 1, 1 / 3)
    ]


def test_short_questions_must_be_the_same_as_a_whole():
    evaluation = {"e": Texts("e", "What is 2+2?")}
    assert pairs(find_contamination(Texts("t", "what is 2 + 2", "What is 2+2+2?"), evaluation)) == [
        ("t/0", "e/0", 1, 1.0)
    ]


def test_a_turn_of_phrase_is_no_hit():
    phrase = "solve the following problem and give the answer as a common fraction please"
    evaluation = {"e": Texts("e", *(f"{phrase} q{n}" for n in range(4)))}
    train = Texts("t", f"{phrase} other")
    assert len(find_contamination(train, evaluation, n=13)) == 4
    assert find_contamination(train, evaluation, n=13, most_shared=3) == []


def test_work_grows_with_the_sum_of_the_sizes(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "gtpo_lit.tasks.contamination.stretches",
        lambda text, n: calls.append(text) or stretches(text, n),
    )
    find_contamination(Texts("t", *"abcdefgh"), {"e": Texts("e", *"stuv"), "f": Texts("f", "w")})
    assert sorted(calls) == sorted("abcdefgh" + "stuv" + "w")


@pytest.mark.parametrize(("options", "message"), [({"n": 1}, "n must be at least 2, got 1"),
    ({"most_shared": 0}, "most_shared must be at least 1, got 0")])  # fmt: skip
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        find_contamination(Texts("t", "a"), {"e": Texts("e", "a")}, **options)


def _config(path, **data):
    sources = {
        key: {
            "class_path": "gtpo_lit.tasks.DatasetSource",
            "init_args": {"name": key, "path": file},
        }
        for key, file in data.items()
    }
    train = sources.pop("problems", None)
    path.write_text(json.dumps({"data": {"problems": train, "validation": sources}}))
    return str(path)


def test_the_command_lists_hits_and_says_what_it_read(tmp_path, dataset_cache, capsys):
    for name, questions in {"train": [LONG, "a b"], "one": [LONG, "c d"], "two": ["e f"]}.items():
        (tmp_path / f"{name}.jsonl").write_text(
            "".join(json.dumps({"question": text, "answer": 1}) + "\n" for text in questions)
        )
    path = {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "one", "two")}
    first = _config(tmp_path / "first.yaml", problems=path["train"])
    second = _config(tmp_path / "second.yaml", one=path["one"], two=path["two"])
    third = _config(tmp_path / "third.yaml", two=path["two"])
    output = tmp_path / "hits.jsonl"
    assert main([first, second, "--output", str(output)]) == 1
    said = capsys.readouterr().out
    assert "one: 1 of 2 problems share 13 words with training" in said
    assert "two: 0 of 1 problems share 13 words with training" in said
    assert "100.0% of one/0 in problems/0: one two three" in said
    (hit,) = [json.loads(line) for line in output.read_text().splitlines()]
    assert (hit["train"], hit["evaluation"], hit["stretches"]) == ("problems/0", "one/0", 3)
    assert main([first, third]) == 0
    assert main([first]) == 2
    assert "has data.validation" in capsys.readouterr().err
    assert main([str(tmp_path / "gone.yaml")]) == 2

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from callbacks import SampleTable, StepHistograms
from callbacks.sample_table import COLUMNS, sample_rows, screen_table
from callbacks.step_histograms import distributions
from gtpo_lit.rollout.collate import collate
from gtpo_lit.types import Completion, Graded, Problem

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def graded(question: str, *answers: tuple[str, tuple[int, ...], bool]) -> Graded:
    return Graded(
        problem=Problem(id=question, question=question, answer="x"),
        completions=tuple(
            Completion(token_ids=ids, text=text, finish_reason="stop") for text, ids, _ in answers
        ),
        reward=tuple(float(right) for *_, right in answers),
        correct=tuple(right for *_, right in answers),
    )


ITEMS = [
    graded("one", ("a", (5, 6), False), ("b", (7,), True), ("c", (8, 9), True)),
    graded("two", ("d", (5,), False), ("e", (6,), False)),
    graded("three", ("f", (5, 6, 7), True), ("g", (6,), False)),
]


def rollouts_of(items):
    made = collate(items, [[1, 2]] * len(items), range(len(items)), temperature=1.0)
    return made.replace(entropy=torch.arange(made.mask.numel()).view(made.mask.shape) / 8.0)


def test_of_each_problem_the_first_right_and_the_first_wrong() -> None:
    rows = sample_rows(ITEMS, rollouts_of(ITEMS), 10)
    assert [(row[0], row[2], row[-1]) for row in rows] == [
        ("one", "yes", "b"),
        ("one", "no", "a"),
        ("two", "no", "d"),
        ("three", "yes", "f"),
        ("three", "no", "g"),
    ]
    # Row 1 begins at 3/8, row 0 holds 0 and 1/8, row 5 holds 15, 16 and 17 eighths.
    assert [row[5] for row in rows] == ["0.375", "0.062", "1.125", "2.000", "2.250"]
    assert [row[4] for row in rows] == [1, 2, 1, 3, 1]
    assert len(sample_rows(ITEMS, rollouts_of(ITEMS), 2)) == 2


def test_entropies_of_other_rows_are_not_shown() -> None:
    """After dynamic sampling the rollouts are others than this rank's completions."""
    rows = sample_rows(ITEMS, rollouts_of(ITEMS[1:]), 10)
    assert [row[5] for row in rows] == ["-"] * 5
    nan = rollouts_of(ITEMS)
    nan = nan.replace(entropy=torch.full_like(nan.entropy, torch.nan))
    assert {row[5] for row in sample_rows(ITEMS, nan, 10)} == {"-"}


def test_long_texts_are_cut_to_the_width() -> None:
    text = screen_table([("q" * 99, "a" * 99, "no", 0.5, 7, "-", "r" * 99)], 100)
    header, line = text.splitlines()
    assert len(line) == 100
    assert line.startswith("q" * 33 + "...  " + "a" * 9 + "...  no     0.5")
    assert line.endswith("r...")
    assert header.split() == list(COLUMNS)


class Data(small["SmallData"]):
    graded = ITEMS


def run(root: Path, *extra, **options):
    trainer = small["make_trainer"](root, extra=extra, **options)
    trainer.fit(small["SmallModule"](), datamodule=Data())
    return trainer


def test_tables_come_every_so_often_and_at_the_end(tmp_path: Path, capsys) -> None:
    run(tmp_path, SampleTable(every=2, rows=3), steps=5)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("Samples")] == [
        f"Samples of RL step {step}" for step in (2, 4, 5)
    ]


def test_loggers_get_whole_texts_and_all_numbers(tmp_path: Path, capsys, monkeypatch) -> None:
    from gtpo_lit.loggers import RunTensorBoardLogger

    tables, histograms = [], []
    monkeypatch.setattr(
        RunTensorBoardLogger, "log_table", lambda self, *given: tables.append(given)
    )
    monkeypatch.setattr(
        RunTensorBoardLogger,
        "log_histogram",
        lambda self, step, name, values: histograms.append((step, name, values.tolist())),
    )
    trainer = run(tmp_path, SampleTable(every=2, show=False), StepHistograms(every=2), steps=3)
    assert "Samples" not in capsys.readouterr().out
    assert [(step, name) for step, name, *_ in tables] == [(2, "samples"), (3, "samples")]
    assert tables[0][2] == COLUMNS
    assert [step for step, *_ in histograms] == [2] * 3 + [3] * 3
    wanted = distributions(trainer.datamodule.rollouts)
    assert {name: values for step, name, values in histograms if step == 3} == {
        name: values.tolist() for name, values in wanted.items()
    }


def test_distributions_by_hand() -> None:
    rollouts = small["make_rollouts"](0.5, 0)
    mask = rollouts.mask.clone()
    mask[2] = False
    entropy = rollouts.entropy.clone()
    entropy[0, 0] = torch.nan
    found = distributions(rollouts.replace(mask=mask, entropy=entropy))
    assert found["histogram/length"].tolist() == [2, 3, 3]
    assert found["histogram/reward"].tolist() == [1.0, 0.0, 0.0]
    assert found["histogram/entropy"].tolist() == [0.75, 2.25, 3.0, 3.75, 6.75, 7.5, 8.25]
    none = rollouts.replace(mask=torch.zeros_like(mask))
    assert distributions(none) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [({"every": 0}, "every .* 1, got 0"), ({"rows": 0}, "rows"), ({"width": 39}, "40, got 39")],
)
def test_options_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        SampleTable(**options)


def test_the_option_of_histograms_is_checked() -> None:
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        StepHistograms(every=0)

"""Runs on data files: they train and say what they dropped; slips end before weights load."""

import json

import pytest

from gtpo_lit import policy_spec


def _chains(path, count, answer=lambda digits: str(sum(digits) % 10)):
    rows = [[(row * 7 + place * 3) % 10 for place in range(4)] + [row % 10] for row in range(count)]
    lines = [
        json.dumps({"sum": "+".join(map(str, digits)) + "=", "result": answer(digits)})
        for digits in rows
    ]
    path.write_text("".join(line + "\n" for line in lines))
    return str(path)


def _options(path, *, split="problems", columns='{"question": "sum", "answer": "result"}'):
    return [
        f"--data.{split}.class_path=gtpo_lit.tasks.DatasetSource",
        f"--data.{split}.init_args.name=file",
        f"--data.{split}.init_args.path={path}",
        f"--data.{split}.init_args.columns={columns}",
    ]


@pytest.fixture
def no_weights(monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("weights were loaded")

    monkeypatch.setattr(policy_spec.PolicySpec, "load", refuse)


def test_a_file_trains_and_says_what_was_dropped(runs, tmp_path, dataset_cache, capsys, caplog):
    path = tmp_path / "chains.jsonl"
    _chains(path, 10)
    path.write_text(path.read_text() * 3 + '{"sum": "1+1=", "result": ""}\n')
    caplog.set_level("INFO")
    runs(*_options(path))
    assert [row["step"] for row in runs.rows()] == ["0", "1", "2"]
    assert float(runs.rows()[1]["train/gradient/norm"]) > 0
    assert (
        "31 rows read, 1 without a usable answer dropped, 20 exact duplicates dropped, 10 problems"
        in caplog.text + capsys.readouterr().err
    )


def test_long_questions_are_cut_on_request(runs, tmp_path, dataset_cache):
    path = _chains(tmp_path / "chains.jsonl", 10)
    runs(
        *_options(path),
        "--data.max_prompt_length=9",
        "--data.long_prompts=cut",
        "--trainer.max_epochs=1",
    )
    assert [row["step"] for row in runs.rows()] == ["0", "1"]


@pytest.mark.parametrize(
    ("options", "rows", "message"),
    [
        ({"columns": '{"question": "sum", "answer": "answer"}'}, 10,
         "columns.answer: there is no column 'answer'; the columns are sum, result"),
        ({}, 3, "data.problems has 3 usable problem(s), but one RL step needs "
         "data.problems_per_step = 4"),
        ({}, 0, "the file is empty"),
    ],
)  # fmt: skip
def test_slips_end_before_weights_load(
    runs, tmp_path, dataset_cache, no_weights, capsys, options, rows, message
):
    path = _chains(tmp_path / "chains.jsonl", rows)
    with pytest.raises(SystemExit) as stopped:
        runs(*_options(path, **options))
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_set_without_a_usable_row_ends_before_weights_load(
    runs, tmp_path, dataset_cache, no_weights, capsys
):
    path = _chains(tmp_path / "chains.jsonl", 5, answer=lambda digits: None)
    with pytest.raises(SystemExit):
        runs(*_options(path))
    assert (
        "no usable row with answer_form = 'auto': 5 rows read, 5 without" in capsys.readouterr().err
    )


def test_the_local_overlay_is_bound_to_files(runs, tmp_path, dataset_cache, monkeypatch, capsys):
    monkeypatch.setenv("GTPO_LIT_DATA", str(tmp_path))
    with pytest.raises(SystemExit):
        runs("--config=configs/data/local.yaml")
    assert "gsm8k_test.jsonl': no such file" in capsys.readouterr().err
    monkeypatch.delenv("GTPO_LIT_DATA")
    with pytest.raises(SystemExit):
        runs("--config=configs/data/local.yaml")
    assert "the environment variable GTPO_LIT_DATA is not set" in capsys.readouterr().err

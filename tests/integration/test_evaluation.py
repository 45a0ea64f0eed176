"""`validate` and `test`: figures, files, own settings, and training that does not notice them."""

import csv
import json

import pyarrow.parquet
import pytest

from gtpo_lit.evaluation import pass_at_k

TEST_SETS = """
data:
  test:
    long:
      class_path: gtpo_lit.tasks.ChainSource
      init_args: {split: validation, size: 3, digits: 6}
    chains:
      class_path: gtpo_lit.tasks.ChainSource
      init_args: {split: validation, size: 5, seed: 0}
  test_samples: 6
  test_sampling: {temperature: 0.5, max_tokens: 30}
"""


def figures(path):
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return {(row["set"], row["metric"]): row for row in rows}


def samples(folder):
    files = sorted(folder.glob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


@pytest.mark.parametrize(
    "options",
    [(), ("--model.algorithm.share_weights=random", "--data.dynamic_sampling.max_rounds=2")],
)
def test_validations_do_not_move_training(runs, options):
    """All `train/` columns are equal with a validation after every step, few, and none at all."""
    steps = "--trainer.max_epochs=3"
    runs(steps, "--trainer.check_val_every_n_epoch=1", *options)
    runs(steps, "--trainer.check_val_every_n_epoch=3", *options)
    runs(
        steps,
        "--data.validation=null",
        "--trainer.num_sanity_val_steps=0",
        "--trainer.limit_val_batches=0",
        *options,
    )
    tables = [[row for row in runs.rows(number) if row["step"] != "0"] for number in range(3)]
    names = [name for name in tables[0][0] if name.startswith("train/")]
    assert {"train/reward/mean", "train/loss", "train/gradient/norm"} <= set(names)
    assert len(tables[0]) == 3
    assert tables[0][0]["val/chains/pass@1"] != ""
    for other in tables[1:]:
        for first, second in zip(tables[0], other, strict=True):
            assert {n: second[n] for n in names} == {n: first[n] for n in names}


def test_validate_leaves_tables_and_every_sample(runs, capsys):
    runs(command="validate")
    folder = runs.version() / "evaluation"
    table = figures(folder / "val.csv")
    rows = samples(folder / "val-samples")
    assert len(rows) == 4 * 4
    right = {}
    for row in rows:
        right[row["problem"]] = right.get(row["problem"], 0) + row["correct"]
        assert row["prompt"] == row["question"]
        assert row["tokens"] == len(row["token_ids"]) <= 26
        assert row["reward"] == row["reward/accuracy"] == float(row["correct"])
        assert row["correct"] == (row["answer"] == row["reference"])
        assert row["text"].endswith(row["answer"])
    assert len(right) == 4
    for k in (1, 2, 4):
        expected = sum(pass_at_k(4, c, k) for c in right.values()) / 4
        shown = table["val/chains", f"pass@{k}"]
        assert float(shown["value"]) == pytest.approx(expected, abs=1e-12)
        assert float(shown["low"]) <= expected <= float(shown["high"])
        assert float(runs.rows()[0][f"val/chains/pass@{k}"]) == pytest.approx(expected, abs=1e-6)
    content = json.loads((folder / "val.json").read_text())
    assert content["missing_problems"] == {"val/chains": 0}
    assert (content["rl_step"], content["checkpoint"]) == (0, None)
    out = capsys.readouterr().out
    assert "Set val/chains: 4 problems x 4 samples" in out
    assert "WARNING" not in out


def test_the_test_sets_have_their_own_settings_and_streams(runs, tmp_path):
    overlay = tmp_path / "test_sets.yaml"
    overlay.write_text(TEST_SETS)
    runs(f"--config={overlay}", command="test")
    runs(f"--config={overlay}", command="validate")
    runs("--data.test_samples=6", command="test")
    folder = runs.version(0) / "evaluation"
    table = figures(folder / "test.csv")
    assert {name for name, _ in table} == {"test/long", "test/chains"}
    assert table["test/long", "pass@6"]["problems"] == "3"
    assert table["test/chains", "pass@6"]["problems"] == "5"
    rows = samples(folder / "test-samples")
    assert len(rows) == (3 + 5) * 6
    assert {len(row["question"].split("+")) for row in rows} == {5, 6}
    # `validate` keeps to its own sets and number of samples.
    assert {name for name, _ in figures(runs.version(1) / "evaluation" / "val.csv")} == {
        "val/chains"
    }
    validated = samples(runs.version(1) / "evaluation" / "val-samples")
    assert len(validated) == 4 * 4
    # Without test sets `test` repeats the validation streams, and draws further ones.
    fallback = samples(runs.version(2) / "evaluation" / "test-samples")
    assert len(fallback) == 4 * 6
    texts = {(row["problem"], row["sample"]): row["text"] for row in fallback}
    for row in validated:
        assert texts[row["problem"], row["sample"]] == row["text"]


def test_a_checkpoint_is_named_in_the_tables(runs):
    runs("--trainer.max_epochs=1")
    checkpoint = runs.version(0) / "checkpoints" / "step=0001.ckpt"
    runs(f"--ckpt_path={checkpoint}", command="validate")
    content = json.loads((runs.version(1) / "evaluation" / "val.json").read_text())
    assert (content["rl_step"], content["checkpoint"]) == (1, str(checkpoint))
    after = json.loads((runs.version(0) / "summary.json").read_text())["val"]["after"]
    shown = content["sets"]["val/chains"]["figures"]
    for name in ("pass@4", "maj@4", "best@2", "diversity/distinct_2"):
        assert shown[name]["value"] == after[f"val/chains/{name}"]


def test_two_ranks_count_each_problem_once(runs):
    """Report G4: three problems on two ranks are three, and the figures are those of one rank."""
    options = ("--data.validation.chains.init_args.size=3",)
    one = runs.apart(*options, "--run.name=one", command="validate")
    two = runs.apart(
        *options, "--run.name=two", "--config=configs/strategy/ddp.yaml", command="validate"
    )
    assert one.returncode == 0, one.stderr[-2000:]
    assert two.returncode == 0, two.stderr[-2000:]
    folders = [runs.version(name=name) / "evaluation" for name in ("one", "two")]
    assert (folders[0] / "val.csv").read_text() == (folders[1] / "val.csv").read_text()
    assert figures(folders[1] / "val.csv")["val/chains", "pass@1"]["problems"] == "3"
    files = sorted(path.name for path in (folders[1] / "val-samples").iterdir())
    assert files == ["chains-rank0000.parquet", "chains-rank0001.parquet"]
    ours, theirs = (samples(folder / "val-samples") for folder in folders)
    assert sorted(ours, key=lambda row: (row["problem"], row["sample"])) == sorted(
        theirs, key=lambda row: (row["problem"], row["sample"])
    )
    assert two.stdout.count("Set val/chains: 3 problems x 4 samples") == 1


def test_without_a_run_folder_the_tables_are_still_printed(runs, tmp_path, capsys):
    runs(
        "--trainer.logger=false",
        f"--trainer.default_root_dir={tmp_path / 'plain'}",
        command="validate",
    )
    assert "Set val/chains: 4 problems x 4 samples" in capsys.readouterr().out
    assert not (tmp_path / "plain").exists()
    assert not runs.root.exists()


def test_missing_problems_are_told(runs, capsys):
    runs("--trainer.limit_val_batches=1", "--data.validation_batch=3", command="validate")
    assert "WARNING: 1 more problem(s) were not evaluated" in capsys.readouterr().out
    content = json.loads((runs.version() / "evaluation" / "val.json").read_text())
    assert content["missing_problems"] == {"val/chains": 1}
    assert content["sets"]["val/chains"]["problems"] == 3


def test_slips_end_before_weights_load(runs, tmp_path, capsys):
    overlay = tmp_path / "bad.yaml"
    overlay.write_text(TEST_SETS.replace("long:", "a/b:"))
    with pytest.raises(SystemExit) as stopped:
        runs(f"--config={overlay}", command="test")
    assert stopped.value.code == 2
    assert "data.test has a set named 'a/b'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        runs("--data.test_samples=0", command="test")
    assert "data.test_samples must be at least 1, got 0" in capsys.readouterr().err
    trained_on = TEST_SETS.replace("split: validation, size: 5, seed: 0", "split: train, size: 5")
    overlay.write_text(trained_on)
    with pytest.raises(SystemExit):
        runs(f"--config={overlay}")
    assert "data.problems and data.test.chains share 5 problem(s)" in capsys.readouterr().err
    assert not runs.root.exists() or not list(runs.root.rglob("metrics.csv"))

"""Recorded steps as files: the same to the bit, whole or not there, and clear errors."""

import dataclasses
import json
import runpy
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPOS, GTPO
from gtpo_lit.recorded import read_rollouts, write_rollouts
from gtpo_lit.recorded.columns import ABOUT

made = runpy.run_path(str(Path(__file__).with_name("made_step.py")))


def bits(value):
    return value.view(torch.int32) if value.dtype == torch.float32 else value


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (GTPO(alpha2=0.3), {}),
        (GRPOS(), {"sampler": False, "penalty": torch.tensor([0.0, -0.5, 0.0, -0.25])}),
        (DAPO(), {"logp_ref": torch.full((4, 4), -0.5)}),
    ],
)
def test_a_step_comes_back_to_the_bit(tmp_path, algorithm, options):
    step = made["make_step"](algorithm, **options)
    write_rollouts(step, tmp_path / "rollouts" / "step_000010.parquet")
    back = read_rollouts(tmp_path / "rollouts" / "step_000010.parquet")
    assert (back.step, back.algorithm, back.settings) == (10, step.algorithm, step.settings)
    assert back.sequences == step.sequences
    assert back.rollouts.temperature == 0.7
    for field in dataclasses.fields(step.rollouts):
        ours, theirs = (getattr(item.rollouts, field.name) for item in (step, back))
        if not isinstance(ours, torch.Tensor):
            assert ours == theirs, field.name
            continue
        if ours.ndim == 2 and field.name not in ("input_ids", "attention_mask"):
            # What lies in a hole of the mask is kept, padding is 0.
            ours = torch.where(step.rollouts.attention_mask[:, 2:], ours, torch.zeros_like(ours))
        assert torch.equal(bits(ours), bits(theirs)), field.name
    assert (step.shaped is None) == (back.shaped is None)
    if step.shaped is not None:
        assert torch.equal(step.shaped, back.shaped)
    assert torch.equal(algorithm.advantages(back.rollouts), step.rollouts.advantages)


def test_the_columns_and_the_metadata_of_the_file(tmp_path):
    path = tmp_path / "a.parquet"
    step = made["make_step"](GTPO(alpha2=0.3))
    write_rollouts(step, path)
    table = pyarrow.parquet.read_table(path)
    assert json.loads(table.schema.metadata[ABOUT.encode()]) == {
        "format_version": 1,
        "step": 10,
        "temperature": 0.7,
        "algorithm": "gtpo_lit.algorithms.gtpo.GTPO",
        "settings": step.settings,
        "advantage_level": "token",
        "shaped_level": "token",
    }
    row = table.to_pylist()[1]
    assert {name: row[name] for name in ("step", "problem", "group", "sample", "length")} == {
        "step": 10,
        "problem": "p/0",
        "group": 4,
        "sample": 1,
        "length": 3,
    }
    assert (row["prompt"], row["prompt_ids"], row["token_ids"]) == ("a b", [2, 4], [3, 4, 5, 1])
    assert row["pieces"] == ["</script>", " b", "\u202e", "<eos>"]
    assert row["mask"] == [True, True, False, True]
    assert (row["correct"], row["truncated"], row["penalty"]) == (False, False, None)
    assert (row["logp_ref"], row["correction"], row["answer"]) == (None, None, None)
    assert row["advantage"] == step.rollouts.advantages[1].tolist()
    assert row["shaped"] == step.shaped[1].tolist()
    assert list(tmp_path.iterdir()) == [path]


def test_a_sequence_level_advantage_stands_at_each_token(tmp_path):
    write_rollouts(made["make_step"](DAPO()), tmp_path / "a.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "a.parquet").to_pylist()
    low = rows[1]["advantage"][0]
    assert low == pytest.approx(-(0.5**0.5), abs=1e-5)
    assert rows[1]["advantage"] == [low, low, 0.0, low]
    assert rows[1]["shaped"] is None


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    write_rollouts(made["make_step"](), path)
    before = path.read_bytes()

    def fail(table, file, **options):
        file.write(b"PAR1 half")
        raise OSError("disk full")

    monkeypatch.setattr(pyarrow.parquet, "write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_rollouts(made["make_step"](step=20), path)
    assert path.read_bytes() == before


def test_files_that_are_not_there_or_broken_say_so(tmp_path):
    path = tmp_path / "step_000010.parquet"
    with pytest.raises(FileNotFoundError, match=r"step_000010.parquet does not exist"):
        read_rollouts(path)
    with pytest.raises(FileNotFoundError, match=r"is a folder.*holds no step_"):
        read_rollouts(tmp_path)
    write_rollouts(made["make_step"](), path)
    with pytest.raises(FileNotFoundError, match=r"is a folder.*name one of step_000010.parquet"):
        read_rollouts(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="is empty"):
        read_rollouts(path)
    for part in (whole[: len(whole) // 2], whole[:-1], b"no parquet at all"):
        path.write_bytes(part)
        with pytest.raises(ValueError, match="not a whole parquet file"):
            read_rollouts(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda about: None, "no file of recorded rollouts"),
        (lambda about: "[]", "names no format_version"),
        (lambda about: "{", "names no format_version"),
        (lambda about: json.dumps({**about, "format_version": 2}), "version 2; .* reads version 1"),
        (lambda about: json.dumps({"format_version": 1}), "lacks advantage_level, algorithm"),
    ],
)
def test_other_formats_and_versions_say_so(tmp_path, change, message):
    path = tmp_path / "a.parquet"
    write_rollouts(made["make_step"](), path)
    table = pyarrow.parquet.read_table(path)
    text = change(json.loads(table.schema.metadata[ABOUT.encode()]))
    table = table.replace_schema_metadata(None if text is None else {ABOUT: text})
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(ValueError, match=message):
        read_rollouts(path)


def test_missing_columns_torn_rows_and_no_rows_say_so(tmp_path):
    path = tmp_path / "a.parquet"
    write_rollouts(made["make_step"](), path)
    table = pyarrow.parquet.read_table(path)
    short = [row[:-1] for row in table["entropy"].to_pylist()]
    torn = table.drop_columns(["entropy"]).append_column("entropy", pyarrow.array(short))
    for broken, message in (
        (table.drop_columns(["entropy", "pieces"]), "lacks the columns entropy, pieces"),
        (torn, "'entropy' and of 'token_ids' differ in length"),
        (table.slice(0, 0), "holds no sequence"),
    ):
        pyarrow.parquet.write_table(broken, path)
        with pytest.raises(ValueError, match=message):
            read_rollouts(path)

"""The config that a run's folder holds."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.cli import LightningArgumentParser

from gtpo_lit.run_config import RunOptions, SaveRunConfig, write_config


def test_config_is_never_written_over(tmp_path):
    folder = tmp_path / "new" / "run"
    first = write_config(folder, "config.yaml", "seed: 1\nckpt_path: null\n")
    assert first == folder / "config.yaml"
    # The same run going on: nothing new to save.
    assert write_config(folder, "config.yaml", "seed: 1\nckpt_path: a.ckpt\n") == first
    second = write_config(folder, "config.yaml", "seed: 2\n")
    assert second == folder / "config.resume-1.yaml"
    third = write_config(folder, "config.yaml", "seed: 3\n")
    assert third == folder / "config.resume-2.yaml"
    assert write_config(folder, "config.yaml", "seed: 2\nckpt_path: null\n") == second
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "config.yaml": "seed: 1\nckpt_path: null\n",
        "config.resume-1.yaml": "seed: 2\n",
        "config.resume-2.yaml": "seed: 3\n",
    }


def save(folder: Path, *, rank_zero: bool = True, loggers: int = 1) -> SaveRunConfig:
    parser = LightningArgumentParser()
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--note", type=str | None, default=None)
    callback = SaveRunConfig(parser, parser.parse_args([]))
    trainer: Any = SimpleNamespace(
        is_global_zero=rank_zero, loggers=[None] * loggers, log_dir=str(folder)
    )
    for _ in range(2):
        callback.setup(trainer, None, "fit")  # type: ignore[arg-type]
    return callback


def test_rank_zero_saves_once(tmp_path):
    assert save(tmp_path).already_saved
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
    assert (tmp_path / "config.yaml").read_text() == "seed: 4\nnote: null\n"


def test_other_ranks_and_runs_without_logger_save_nothing(tmp_path):
    assert save(tmp_path, rank_zero=False).already_saved
    assert not save(tmp_path, loggers=0).already_saved
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "/x", "a//b", "a/../../b"])
def test_run_name_stays_below_the_root(name):
    with pytest.raises(ValueError, match=f"run.name = {name!r}"):
        RunOptions(name=name)


def test_run_options():
    assert (RunOptions().root, RunOptions().name) == ("runs", "run")
    assert RunOptions(name="study/a").name == "study/a"
    with pytest.raises(ValueError, match="run.root must not be empty"):
        RunOptions(root="")

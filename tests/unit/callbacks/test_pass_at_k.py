from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from callbacks import PassAtK
from callbacks.pass_at_k import table
from gtpo_lit.metrics_csv import read_metrics, read_rows
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def watcher(trainer) -> PassAtK:
    return next(callback for callback in trainer.callbacks if isinstance(callback, PassAtK))


def expected(w: float, name: str = "a", size: int = 5) -> float:
    every = [small["grade"](name, index, w).correct for index in range(size)]
    return sum(sum(correct) / 4 for correct in every) / size


def test_row_zero_is_the_validation_before_training(tmp_path: Path) -> None:
    trainer = small["run"](tmp_path, steps=2)
    table_ = read_metrics(find_run_logger(trainer).folder.path)
    w = float(trainer.lightning_module.w.detach())
    assert table_["val/a/pass@1"][0] == expected(0.0) == 0.0
    assert table_["val/a/pass@1"][2] == expected(w) > 0.0
    assert table_["val/a/length/mean"][0] == 4.5
    assert table_["val/b/truncated_fraction"][0] == 0.25
    assert watcher(trainer).before["val/a/pass@1"] == 0.0
    assert watcher(trainer).latest["val/a/pass@1"] == expected(w)
    assert watcher(trainer).latest_step == 2


@pytest.mark.parametrize("sanity_steps", [0, 1])
def test_a_partial_sanity_check_is_no_measurement(tmp_path: Path, sanity_steps: int) -> None:
    trainer = small["run"](tmp_path, steps=1, num_sanity_val_steps=sanity_steps)
    assert watcher(trainer).before == {}
    assert list(read_rows(find_run_logger(trainer).folder.metrics)) == [1]


def test_before_survives_a_resume_outside_the_run_folder(tmp_path: Path) -> None:
    first = find_run_logger(small["run"](tmp_path / "one", steps=2)).folder
    moved = first.checkpoint(2).rename(tmp_path / "moved.ckpt")
    trainer = small["run"](tmp_path / "two", steps=4, ckpt_path=moved)
    folder = find_run_logger(trainer).folder
    rows = read_rows(folder.metrics)
    assert list(rows) == [0, 3, 4]
    assert rows[0] == read_rows(first.metrics)[0]
    assert watcher(trainer).before["val/a/pass@1"] == 0.0


def test_best_keeps_its_step(tmp_path: Path) -> None:
    watch = PassAtK()
    watch._remember({"val/a/pass@1": 0.5, "val/a/length/mean": 9.0}, step=0)
    watch._remember({"val/a/pass@1": 0.75}, step=2)
    watch._remember({"val/a/pass@1": 0.75}, step=4)
    assert watch.best == {"val/a/pass@1": (0.75, 2)}
    other = PassAtK()
    other.load_state_dict(watch.state_dict())
    assert other.best == watch.best


def test_validate_and_test_print_a_table(tmp_path: Path, capsys) -> None:
    trainer = small["make_trainer"](tmp_path)
    module = small["SmallModule"]()
    (values, _) = trainer.validate(module, datamodule=small["SmallData"](), verbose=False)
    assert values["val/a/pass@1"] == 0.0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines if line.startswith(("set", "val"))] == [
        ["set", "pass@1", "pass@2"],
        ["val/a", "0.0000", "0.0000"],
        ["val/b", "0.0000", "0.0000"],
    ]
    trainer.test(module, datamodule=small["SmallData"](), verbose=False)
    assert "test/a" in capsys.readouterr().out
    rows = read_rows(find_run_logger(trainer).folder.metrics)
    assert list(rows) == [0]
    assert {"val/a/pass@1", "test/a/pass@1"} <= rows[0].keys()


def test_all_figures_are_logged_and_the_tables_written(tmp_path: Path) -> None:
    trainer = small["make_trainer"](tmp_path)
    trainer.validate(small["SmallModule"](), datamodule=small["SmallData"](), verbose=False)
    folder = find_run_logger(trainer).folder.evaluation
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*"))
    assert names == [
        "val-samples/a-rank0000.parquet",
        "val-samples/b-rank0000.parquet",
        "val.csv",
        "val.json",
    ]
    logged = read_rows(find_run_logger(trainer).folder.metrics)[0]
    rows = [line.split(",")[:2] for line in (folder / "val.csv").read_text().splitlines()[1:]]
    assert {f"{name}/{metric}" for name, metric in rows} == logged.keys()
    assert float(logged["val/a/avg@4"]) == 0.0


def test_samples_can_be_left_out(tmp_path: Path) -> None:
    trainer = small["make_trainer"](tmp_path)
    watcher(trainer).keep_samples = False
    trainer.test(small["SmallModule"](), datamodule=small["SmallData"](), verbose=False)
    folder = find_run_logger(trainer).folder.evaluation
    assert sorted(path.name for path in folder.iterdir()) == ["test.csv", "test.json"]


def test_draws_are_checked() -> None:
    with pytest.raises(ValueError, match="draws=0"):
        PassAtK(draws=0)


def test_k_is_checked() -> None:
    for k in ([], [0, 1]):
        with pytest.raises(ValueError, match="at least 1"):
            PassAtK(k)


def test_table_of_nothing() -> None:
    assert table({}) == "set"


def test_a_k_without_an_estimate_is_refused_before_anything_loads() -> None:
    sets = SimpleNamespace(sources={"a": None}, samples=4)
    trainer = SimpleNamespace(datamodule=SimpleNamespace(validation_sets=sets, test_sets=sets))
    PassAtK([1, 4]).setup(trainer, None, "fit")
    with pytest.raises(ValueError, match=r"k = \[64\] is above the 4 samples of each problem"):
        PassAtK([64]).setup(trainer, None, "test")
    with pytest.warns(UserWarning, match=r"k = \[8\] is above the 4 samples"):
        PassAtK([4, 8]).setup(trainer, None, "validate")

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import torch

from callbacks import ExportHF
from callbacks.export_hf import replace_folder
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


class Policy:
    """Exports its weight as a text file, as `CausalPolicy.export` does a whole folder."""

    def __init__(self, module) -> None:
        self.module = module

    def export(self, folder) -> None:
        path = Path(folder)
        path.mkdir(parents=True)
        (path / "w").write_text(repr(self.module.w.item()))


def module():
    made = small["SmallModule"]()
    made.__dict__["policy"] = Policy(made)
    return made


def run(root: Path, export: ExportHF, **options):
    trainer = small["make_trainer"](root, extra=(export,), **options)
    made = module()
    trainer.fit(made, datamodule=small["SmallData"](), ckpt_path=options.get("ckpt_path"))
    return find_run_logger(trainer).folder, made


def exported(folder) -> list[str]:
    return sorted(entry.name for entry in folder.exports.iterdir())


def weight(folder, name: str) -> float:
    return float((folder.exports / name / "w").read_text())


def test_the_end_is_always_exported(tmp_path: Path) -> None:
    folder, made = run(tmp_path, ExportHF(), steps=3)
    assert exported(folder) == ["step=0003"]
    assert weight(folder, "step=0003") == made.w.item()


def test_every_so_many_steps_with_the_weights_of_then(tmp_path: Path) -> None:
    folder, _ = run(tmp_path, ExportHF(every=2), steps=6)
    assert exported(folder) == ["step=0002", "step=0004", "step=0006"]
    for step in (2, 4, 6):
        saved = torch.load(folder.checkpoint(step), weights_only=True)["state_dict"]["w"]
        assert weight(folder, f"step={step:04d}") == float(saved)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    folder, _ = run(tmp_path, ExportHF(every=1, keep_last=2), steps=4)
    assert exported(folder) == ["step=0003", "step=0004"]


def test_the_best_is_kept_and_survives_a_resume(tmp_path: Path) -> None:
    # Validated every two steps; pass@1 only grows, so the newest validation is the best.
    best = "val/a/pass@1"
    folder, _ = run(tmp_path, ExportHF(best=best), steps=4)
    assert exported(folder) == ["best-step=0004", "step=0004"]
    worst = ExportHF(best="val/a/truncated_fraction")
    other, _ = run(tmp_path / "equal", worst, steps=4)
    # Equal values do not replace the first.
    assert exported(other) == ["best-step=0002", "step=0004"]
    assert worst.best_value == 0.25
    again = ExportHF(best=best, mode="min")
    again.load_state_dict(worst.state_dict())
    assert again.best_value == 0.25
    lower, _ = run(tmp_path / "lower", ExportHF(best="val/a/reward/mean", mode="min"), steps=4)
    assert exported(lower) == ["best-step=0002", "step=0004"]


def test_an_unknown_metric_stops_before_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"best = 'val/c/pass@1' is none of val/a/"):
        run(tmp_path, ExportHF(best="val/c/pass@1"))
    assert not (tmp_path / "small" / "version_0" / "checkpoints").exists()


def test_a_folder_of_its_own_needs_no_logger(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = {"steps": 1, "logger": False}
    trainer = small["make_trainer"](
        tmp_path, extra=(ExportHF(folder=str(tmp_path / "out")),), **options
    )
    trainer.fit(module(), datamodule=small["SmallData"]())
    assert (tmp_path / "out" / "step=0001" / "w").is_file()
    trainer = small["make_trainer"](tmp_path, extra=(ExportHF(),), **options)
    with pytest.raises(ValueError, match="folder = null"):
        trainer.fit(module(), datamodule=small["SmallData"]())


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "export" / "step=0001"

    def write(text: str, fails: bool = False):
        def fill(folder: Path) -> None:
            folder.mkdir(parents=True)
            (folder / text).write_text(text)
            if fails:
                raise OSError("disk full")

        return fill

    replace_folder(target, write("one"))
    with pytest.raises(OSError, match="disk full"):
        replace_folder(target, write("two", fails=True))
    assert [entry.name for entry in target.iterdir()] == ["one"]
    replace_folder(target, write("three"))
    assert [entry.name for entry in target.iterdir()] == ["three"]
    assert [entry.name for entry in target.parent.iterdir()] == ["step=0001"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every .* got 0"),
        ({"keep_last": 0}, "keep_last .* got 0"),
        ({"mode": "most"}, "mode .* got 'most'"),
        ({"best": "train/loss"}, "best .* got 'train/loss'"),
    ],
)
def test_options_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        ExportHF(**options)

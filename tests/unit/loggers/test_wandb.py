"""Against the real package, offline."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gtpo_lit.loggers import RunWandbLogger
from gtpo_lit.run_logger import RunLogger


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setattr("gtpo_lit.loggers.wandb.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"RunWandbLogger needs wandb: pip install"):
        RunWandbLogger()


@pytest.fixture
def wandb(monkeypatch):
    module = pytest.importorskip("wandb", reason="wandb is not installed (extra: logging)")
    monkeypatch.setenv("WANDB_SILENT", "true")
    yield module
    module.finish()


def test_rows_histograms_and_tables_by_rl_step(tmp_path: Path, wandb, monkeypatch) -> None:
    run_logger = RunLogger(str(tmp_path), "small")
    logger = RunWandbLogger(offline=True)
    logger.follow(run_logger)
    sent: list[dict] = []
    monkeypatch.setattr(type(logger.experiment), "log", lambda run, row: sent.append(row))
    logger.log_row(0, {"val/a/pass@1": 0.25})
    logger.log_metrics({"train/loss": 0.5, "epoch": 4}, step=77)
    logger.log_histogram(5, "histogram/entropy", torch.tensor([0.0, 1.0, 4.0]))
    logger.log_table(5, "samples", ["problem", "reward"], [["1+1", 1.0]])
    assert sent[0] == {"val/a/pass@1": 0.25, "trainer/global_step": 0}
    assert sent[1] == {"train/loss": 0.5, "trainer/global_step": 5}
    assert (sum(sent[2]["histogram/entropy"].histogram), sent[2]["trainer/global_step"]) == (3, 5)
    assert (sent[3]["samples"].data, sent[3]["trainer/global_step"]) == ([["1+1", 1.0]], 5)


def test_files_and_id_are_in_the_run_folder(tmp_path: Path, wandb) -> None:
    run_logger = RunLogger(str(tmp_path), "small")
    logger = RunWandbLogger(offline=True, group="seeds")
    logger.follow(run_logger)
    logger.log_row(1, {"train/loss": 0.5})
    folder = run_logger.folder.path
    assert (logger.experiment.name, logger.experiment.group) == ("small/version_0", "seeds")
    assert (folder / "wandb.id").read_text().strip() == logger.experiment.id
    wandb.finish()
    (log,) = folder.glob(f"wandb/offline-run-*/run-{logger._experiment.id}.wandb")
    assert log.stat().st_size > 0


def test_a_run_that_goes_on_keeps_its_id(tmp_path: Path, wandb) -> None:
    run_logger = RunLogger(str(tmp_path), "small")
    (run_logger.folder.path / "wandb.id").write_text("abc123\n")
    logger = RunWandbLogger(offline=True, name="mine")
    logger.follow(run_logger)
    assert (logger.experiment.id, logger.experiment.name) == ("abc123", "mine")

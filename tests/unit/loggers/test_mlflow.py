"""Against the real package, in a file of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtpo_lit.loggers import RunMLFlowLogger
from gtpo_lit.run_logger import RunLogger


def test_a_missing_package_is_named(monkeypatch) -> None:
    monkeypatch.setattr("gtpo_lit.loggers.mlflow.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"RunMLFlowLogger needs mlflow: pip install"):
        RunMLFlowLogger()


@pytest.fixture
def logger_in(monkeypatch):
    for name in ("mlflow", "sqlalchemy"):
        pytest.importorskip(name, reason="mlflow is not installed (extra: logging)")

    def make(root: Path) -> RunMLFlowLogger:
        monkeypatch.chdir(root)
        logger = RunMLFlowLogger(tracking_uri=f"sqlite:///{root}/mlflow.db")
        logger.follow(RunLogger(str(root), "small", version=0))
        return logger

    return make


def test_rows_and_tables_by_rl_step(tmp_path: Path, logger_in) -> None:
    logger = logger_in(tmp_path)
    logger.log_row(0, {"val/a/pass@1": 0.25})
    logger.log_metrics({"train/loss": 0.5, "epoch": 4}, step=77)
    logger.log_table(5, "samples", ["problem"], [["1+1"]])
    client, run_id = logger.experiment, logger.run_id
    (before,) = client.get_metric_history(run_id, "val/a/pass_at_1")
    (loss,) = client.get_metric_history(run_id, "train/loss")
    assert (before.step, before.value, loss.step, loss.value) == (0, 0.25, 5, 0.5)
    assert client.get_run(run_id).info.run_name == "small/version_0"
    (artifact,) = client.list_artifacts(run_id, "samples")
    assert artifact.path == "samples/step=0005.md"
    assert logger.remembered("mlflow") == run_id


def test_a_run_that_goes_on_keeps_its_id(tmp_path: Path, logger_in) -> None:
    first = logger_in(tmp_path)
    first.log_row(1, {"train/loss": 1.0})
    first.finalize("success")
    second = RunMLFlowLogger(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    second.follow(first.run_logger)
    second.log_row(2, {"train/loss": 0.5})
    assert second.run_id == first.run_id
    found = second.experiment.get_metric_history(second.run_id, "train/loss")
    assert [(one.step, one.value) for one in found] == [(1, 1.0), (2, 0.5)]

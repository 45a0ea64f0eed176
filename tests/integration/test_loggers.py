"""The overlays in `configs/logger/`: what a run leaves under each."""

import sys

import pytest

EVERYTHING = (
    "--trainer.callbacks+=callbacks.StepHistograms",
    "--trainer.callbacks+=callbacks.SampleTable",
    "--trainer.callbacks.every=1",
    "--trainer.callbacks+=callbacks.Throughput",
    "--trainer.callbacks+=callbacks.EntropyRebound",
)


def left(runs):
    return {path.name for path in runs.version().iterdir()}


def test_nothing_breaks_and_nothing_is_left_without_a_logger(runs, capsys):
    runs("--config=configs/logger/none.yaml", *EVERYTHING)
    assert not runs.root.exists()
    out = capsys.readouterr().out
    assert "val/chains/pass@1: " in out.splitlines()[-1]
    assert "expected" in out


def test_a_foreign_logger_takes_what_it_can(runs):
    runs(
        "--trainer.logger=lightning.pytorch.loggers.CSVLogger",
        f"--trainer.logger.save_dir={runs.root}",
        *EVERYTHING,
    )
    (table,) = runs.root.rglob("metrics.csv")
    assert "train/entropy/top_share" in table.read_text().splitlines()[0]


def test_tensorboard_is_left_out_where_it_is_not_installed(runs, monkeypatch):
    from gtpo_lit.loggers import RunTensorBoardLogger

    monkeypatch.setattr(RunTensorBoardLogger, "installed", staticmethod(lambda: False))
    runs(*EVERYTHING)
    assert "metrics.csv" in left(runs)
    assert "tensorboard" not in left(runs)


@pytest.mark.parametrize("name", ["wandb", "mlflow"])
def test_a_missing_tracker_ends_in_one_line(runs, capsys, monkeypatch, name):
    monkeypatch.setattr(f"gtpo_lit.loggers.{name}.find_spec", lambda _: None)
    with pytest.raises(SystemExit) as stopped:
        runs(f"--config=configs/logger/{name}.yaml")
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"needs {name}: pip install 'gtpo-lit[logging]'" in line
    assert not runs.root.exists()


def test_weights_and_biases_offline(runs, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed (extra: logging)")
    monkeypatch.setenv("WANDB_SILENT", "true")
    offline = runs.config.parent / "offline.yaml"
    offline.write_text(
        "trainer:\n  logger:\n    - class_path: gtpo_lit.loggers.RunWandbLogger\n"
        "      init_args: {offline: true}\n"
    )
    runs("--config=configs/logger/wandb.yaml", f"--config={offline}", *EVERYTHING)
    wandb.finish()
    assert {"wandb", "wandb.id", "metrics.csv"} <= left(runs)
    assert "wandb" in sys.modules


def test_mlflow_in_a_file(runs, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed (extra: logging)")
    uri = f"sqlite:///{runs.root.parent}/mlflow.db"
    pytest.importorskip("sqlalchemy", reason="mlflow is not whole")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    runs("--config=configs/logger/mlflow.yaml", *EVERYTHING)
    run_id = (runs.version() / "mlflow.id").read_text().strip()
    client = mlflow.tracking.MlflowClient(uri)
    rows = {int(row["step"]): row for row in runs.rows()}
    found = client.get_metric_history(run_id, "val/chains/pass_at_1")
    assert {one.step: one.value for one in found} == {
        step: pytest.approx(float(row["val/chains/pass@1"]), abs=1e-6) for step, row in rows.items()
    }

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from lightning.pytorch.callbacks import Callback, LearningRateMonitor

from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.metrics_csv import read_metrics, read_rows
from gtpo_lit.run_logger import RunLogger, find_run_logger, log_row

small = runpy.run_path(str(Path(__file__).with_name("small_run.py")))


def test_nothing_is_made_before_first_use(tmp_path: Path) -> None:
    logger = RunLogger(str(tmp_path / "runs"))
    RunTensorBoardLogger(logger)
    assert not (tmp_path / "runs").exists()
    assert logger.version == "version_0"
    assert logger.log_dir == str(tmp_path / "runs" / "run" / "version_0")
    assert Path(logger.log_dir).is_dir()


def test_calls_of_one_step_merge_into_its_row(tmp_path: Path) -> None:
    logger = RunLogger(str(tmp_path))
    logger.log_metrics({"train/loss": 0.5, "epoch": 0}, step=3)
    logger.log_metrics({"val/a/pass@1": 0.25, "epoch": 0, "time/step": 9.0}, step=3)
    logger.log_metrics({"train/loss": 0.125, "epoch": 1, "global_step": 8}, step=7)
    assert logger.folder.metrics.read_text() == (
        "step,train/loss,val/a/pass@1\n1,0.5,0.25\n2,0.125,\n"
    )
    assert logger.folder.timing.read_text() == "step,time/step\n1,9.0\n"


def test_a_run_fills_one_row_a_step_and_the_folder(tmp_path: Path) -> None:
    trainer = small["run"](tmp_path, steps=2, curves=True)
    folder = find_run_logger(trainer).folder
    names = {path.name for path in folder.path.iterdir()}
    assert names == {
        *(".lock", "checkpoints", "curves.png", "metrics.csv"),
        *("summary.json", "tensorboard", "timing.csv"),
    }
    assert trainer.log_dir == str(folder.path)
    table = read_metrics(folder.path)
    assert table["step"] == [0, 1, 2]
    assert not {"epoch", "global_step", "time/step"} & table.keys()
    # w goes 0 -> 0.2 -> 0.46 (momentum 0.5) toward 1.0, so the losses are 1 and 0.64.
    assert abs(table["train/loss_epoch"][1] - (1.0 + 0.64) / 2) < 1e-6
    assert list(read_rows(folder.timing)) == [1, 2]


def test_equal_runs_give_equal_bytes(tmp_path: Path) -> None:
    one = find_run_logger(small["run"](tmp_path, steps=3)).folder
    two = find_run_logger(small["run"](tmp_path, steps=3)).folder
    assert (one.path.name, two.path.name) == ("version_0", "version_1")
    assert one.metrics.read_bytes() == two.metrics.read_bytes()


class _WritesLate(Callback):
    """Logs without an epoch, as Lightning's own monitors do."""

    def on_train_batch_start(self, trainer, *args) -> None:
        step = trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in trainer.loggers:
            logger.log_metrics({"late": float(trainer.current_epoch)}, step=step)


def test_metrics_without_an_epoch_land_in_the_current_row(tmp_path: Path) -> None:
    extra = (LearningRateMonitor(), _WritesLate())
    trainer = small["run"](tmp_path, steps=3, extra=extra)
    table = read_metrics(find_run_logger(trainer).folder.path)
    assert table["late"][1:] == [0.0, 1.0, 2.0]
    assert table["lr-SGD"][1:] == [0.1, 0.1, 0.1]


def test_tensorboard_counts_rl_steps_in_the_same_folder(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    trainer = small["run"](tmp_path, steps=2)
    folder = find_run_logger(trainer).folder
    events = EventAccumulator(str(folder.path / "tensorboard"))
    events.Reload()
    table = read_metrics(folder.path)
    logged = [table["val/a/pass@1"][step] for step in (0, 2)]
    scalars = {one.step: one.value for one in events.Scalars("val/a/pass@1")}
    # Events are single precision.
    assert scalars == pytest.approx(dict(zip((0, 2), logged, strict=True)), abs=1e-6)
    assert [one.step for one in events.Scalars("train/entropy/mean")] == [1, 2]
    assert "epoch" not in events.Tags()["scalars"]


def test_validate_writes_the_row_of_its_checkpoint(tmp_path: Path) -> None:
    ran = find_run_logger(small["run"](tmp_path, steps=3)).folder
    trainer = small["make_trainer"](tmp_path)
    trainer.validate(
        small["SmallModule"](), datamodule=small["SmallData"](), ckpt_path=ran.checkpoint(2)
    )
    table = read_metrics(find_run_logger(trainer).folder.path)
    assert find_run_logger(trainer).folder.path.name == "version_1"
    assert table["step"] == [2]
    assert table["val/a/pass@1"] == [read_metrics(ran.path)["val/a/pass@1"][2]]


def test_validate_after_fit_does_not_touch_other_rows(tmp_path: Path) -> None:
    trainer = small["run"](tmp_path, steps=2)
    folder = find_run_logger(trainer).folder
    before = folder.metrics.read_bytes()
    trainer.validate(trainer.lightning_module, datamodule=small["SmallData"]())
    assert folder.metrics.read_bytes() == before


def test_log_row_reaches_every_logger(tmp_path: Path) -> None:
    trainer = small["make_trainer"](tmp_path)
    log_row(trainer, 0, {"val/a": 0.5})
    assert read_metrics(tmp_path / "small" / "version_0")["val/a"] == [0.5]
    assert list((tmp_path / "small" / "version_0" / "tensorboard").iterdir())


def test_the_cli_puts_its_config_into_the_run_folder(tmp_path: Path) -> None:
    from lightning.pytorch.cli import LightningCLI

    config = tmp_path / "given.yaml"
    config.write_text(
        "trainer:\n"
        "  max_epochs: 2\n"
        "  accelerator: cpu\n"
        "  enable_model_summary: false\n"
        "  num_sanity_val_steps: -1\n"
        "  logger:\n"
        "    class_path: gtpo_lit.run_logger.RunLogger\n"
        f"    init_args: {{root: {tmp_path}, name: cli}}\n"
        "  callbacks:\n"
        "    - class_path: callbacks.EntropyMonitor\n"
        "    - class_path: callbacks.ResponseLengthMonitor\n"
        "    - {class_path: callbacks.PassAtK, init_args: {k: [1, 4]}}\n"
        "    - {class_path: callbacks.StepProgressBar, init_args: {lines: 5}}\n"
        "    - {class_path: callbacks.RunSummary, init_args: {curves: false}}\n"
        "    - class_path: gtpo_lit.run_checkpoint.RunCheckpoint\n"
        "      init_args: {keep_last: 1}\n"
    )
    LightningCLI(small["SmallModule"], small["SmallData"], args=["fit", "--config", str(config)])
    folder = tmp_path / "cli" / "version_0"
    saved = (folder / "config.yaml").read_text()
    assert "class_path: callbacks.PassAtK" in saved
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["step=0002.ckpt"]
    table = read_metrics(folder)
    assert table["step"] == [0, 1, 2]
    assert "val/a/pass@4" in table
    assert "val/a/pass@2" not in table

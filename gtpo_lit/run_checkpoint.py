"""Checkpoints between RL steps, when no rollout is in flight and resuming is exact."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.utilities.apply_func import convert_tensors_to_scalars
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger

_BETWEEN = "an RL step is one epoch, and rollouts in flight are not saved; use every_n_epochs"


class RunCheckpoint(ModelCheckpoint):
    """Saves `checkpoints/step=NNNN.ckpt` of the run folder at the end of RL step NNNN.

    The row of a step is in `metrics.csv` before its checkpoint appears, so that a run which is
    killed in between loses nothing. The checkpoint is written under another name and then renamed:
    a file named `step=NNNN.ckpt` is complete.
    """

    def __init__(
        self,
        *,
        every_n_epochs: int = 1,
        keep_last: int | None = None,
        save_weights_only: bool = False,
        every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None,
    ) -> None:
        """Check the options.

        Args:
            every_n_epochs: RL steps between checkpoints; the last RL step always gets one.
            keep_last: number of newest checkpoints to keep; None keeps all. The one that the run
                was resumed from is never removed.
            save_weights_only: leave out what resuming needs.
            every_n_train_steps: refused.
            train_time_interval: refused.

        Raises:
            ValueError: for a checkpoint within an RL step or a number below 1.
        """
        for option, value in [
            ("every_n_train_steps", every_n_train_steps),
            ("train_time_interval", train_time_interval),
        ]:
            if value:
                raise ValueError(f"RunCheckpoint({option}={value!r}): {_BETWEEN}")
        if every_n_epochs < 1:
            raise ValueError(f"every_n_epochs={every_n_epochs} is below 1")
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"keep_last={keep_last} is below 1")
        super().__init__(
            filename="step={step:04d}",
            auto_insert_metric_name=False,
            save_top_k=-1,
            save_weights_only=save_weights_only,
            every_n_epochs=every_n_epochs,
            save_on_train_epoch_end=True,
            enable_version_counter=False,
        )
        self.keep_last = keep_last

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Tell all ranks the run folder, and check what could spoil a resume."""
        refuse_mid_step_checkpoints(trainer)
        logger = find_run_logger(trainer)
        if logger is not None:
            folder = logger.folder if trainer.is_global_zero else None
            folder = trainer.strategy.broadcast(folder)
            assert folder is not None
            logger.adopt(folder)
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Tell the logger which row is being filled."""
        super().on_train_start(trainer, pl_module)
        logger = find_run_logger(trainer)
        if logger is not None:
            _check_same_checkpoint(trainer.ckpt_path, logger.ckpt_path)
        _set_row(trainer, trainer.current_epoch + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put the step's row on disk, then save."""
        commit_row(trainer)
        _set_row(trainer, trainer.current_epoch + 2)
        last = (
            trainer.should_stop
            or trainer.current_epoch + 1 == trainer.max_epochs
            or trainer.global_step == trainer.max_steps
        )
        every, self._every_n_epochs = self._every_n_epochs, 1 if last else self._every_n_epochs
        super().on_train_epoch_end(trainer, pl_module)
        self._every_n_epochs = every
        self._remove_old(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Note the number of completed RL steps inside the file."""
        # This count is raised just before the epoch's last hooks, where `current_epoch` lags.
        progress = trainer.fit_loop.epoch_progress.current.state_dict()
        checkpoint["rl_step"] = progress["processed"]

    @property
    def last_saved(self) -> str:
        """Path of the newest checkpoint that this process wrote; empty before the first."""
        return self._last_checkpoint_saved

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the folder itself says which checkpoints there are."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing to restore, in the same folder or another."""

    def _monitor_candidates(self, trainer: Trainer) -> dict[str, Tensor]:
        # The name of a checkpoint counts RL steps, where Lightning counts optimiser steps.
        return {"step": torch.tensor(trainer.current_epoch + 1)}

    def _save_checkpoint(self, trainer: Trainer, filepath: str) -> None:
        partial = f"{filepath}.partial"
        if trainer.is_global_zero and os.path.isdir(partial):
            shutil.rmtree(partial)
        trainer.strategy.barrier("RunCheckpoint.clean")
        trainer.save_checkpoint(partial, self.save_weights_only)
        if trainer.is_global_zero:
            _move_into_place(Path(partial), Path(filepath))
        trainer.strategy.barrier("RunCheckpoint.saved")
        self._last_global_step_saved = trainer.global_step
        self._last_checkpoint_saved = filepath

    def _remove_old(self, trainer: Trainer) -> None:
        if self.keep_last is None or not self.dirpath or not trainer.is_global_zero:
            return
        folder = RunFolder(path=Path(self.dirpath).parent)
        for step in folder.checkpoint_steps()[: -self.keep_last]:
            path = str(folder.checkpoint(step))
            if self._should_remove_checkpoint(trainer, path, self._last_checkpoint_saved):
                self._remove_checkpoint(trainer, path)


def commit_row(trainer: Trainer) -> None:
    """Write the row of the RL step that ends now.

    Lightning gives the step's metrics to the loggers only after the checkpoint hooks. Its later
    call brings the same values again, which changes nothing. Called on all ranks, since a metric
    may be reduced over them when it is read.
    """
    metrics = convert_tensors_to_scalars(trainer._logger_connector.metrics["log"])
    logger = find_run_logger(trainer)
    if logger is not None:
        logger.log_metrics({**metrics, "epoch": trainer.current_epoch})


def refuse_mid_step_checkpoints(trainer: Trainer) -> None:
    """Check that no `ModelCheckpoint` of the trainer saves within an RL step.

    Raises:
        ValueError: naming the callback and its option.
    """
    for callback in trainer.checkpoint_callbacks:
        if not isinstance(callback, ModelCheckpoint):
            continue
        options = {
            "every_n_train_steps": callback._every_n_train_steps,
            "train_time_interval": callback._train_time_interval,
            "save_on_exception": callback.save_on_exception,
        }
        for option, value in options.items():
            if value:
                raise ValueError(f"{type(callback).__name__}({option}={value!r}): {_BETWEEN}")


def _check_same_checkpoint(fit: Any, logger: str | None) -> None:
    if (fit and Path(fit).resolve()) != (logger and Path(logger).resolve()):
        raise ValueError(
            f"fit(ckpt_path={fit!r}) but RunLogger(ckpt_path={logger!r}): "
            "both need the same checkpoint, since it decides which folder the run goes on in"
        )


def _set_row(trainer: Trainer, rl_step: int) -> None:
    logger = find_run_logger(trainer)
    if logger is not None:
        logger.rl_step = rl_step


def _move_into_place(partial: Path, final: Path) -> None:
    if partial.is_file():
        with partial.open("rb") as file:
            os.fsync(file.fileno())
    os.replace(partial, final)

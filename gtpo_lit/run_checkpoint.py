"""Checkpoints at the end of RL steps, never inside one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from gtpo_lit.run_folder import checkpoint_step
from gtpo_lit.run_logger import RunLogger


class RunCheckpoint(Checkpoint):
    """Writes ``checkpoints/step=NNNN.ckpt`` after every `every` RL steps and after the last one.

    A checkpoint's row of metrics is on the disk before the checkpoint is, so that what a resume
    reads is never ahead of what was logged. A checkpoint is there whole or not at all.

    Args:
        every: RL steps between checkpoints.
        keep_last: how many checkpoints stay; all if null.
    """

    def __init__(self, every: int = 1, keep_last: int | None = 3) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"every must be at least 1, got {every}")
        if keep_last is not None and keep_last < 1:
            raise ValueError(f"keep_last must be at least 1 or null, got {keep_last}")
        self.every = every
        self.keep_last = keep_last
        self.folder = Path()
        self.last_saved: Path | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Settle on the run's folder, the same on all ranks."""
        if stage == "fit":
            self.folder = Path(trainer.log_dir or trainer.default_root_dir) / "checkpoints"

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the step's row, then its checkpoint."""
        step = trainer.current_epoch + 1
        log_row(trainer, step)
        if step % self.every and step != trainer.max_epochs:
            return
        path = self.folder / f"step={step:04d}.ckpt"
        partial = path.with_suffix(".partial")
        trainer.save_checkpoint(partial, weights_only=False)
        if trainer.is_global_zero:
            if partial.is_file():
                with partial.open("rb") as file:
                    os.fsync(file.fileno())
            partial.replace(path)
            self._prune()
        trainer.strategy.barrier("checkpoint")
        self.last_saved = path

    def _prune(self) -> None:
        if self.keep_last is None:
            return
        found = {
            step: path
            for path in self.folder.glob("step=*.ckpt")
            if (step := checkpoint_step(path)) is not None
        }
        for step in sorted(found)[: -self.keep_last]:
            found[step].unlink()


def log_row(trainer: Trainer, step: int) -> None:
    """Hand the step's epoch-end metrics to the run's table; Lightning does so only later."""
    # The public `callback_metrics` also holds values of earlier steps; this is the step alone.
    metrics = trainer._logger_connector.metrics["log"]
    for logger in trainer.loggers:
        if isinstance(logger, RunLogger):
            logger.log_step(step, {name: float(value) for name, value in metrics.items()})


def refuse_mid_step_checkpoints(trainer: Trainer) -> None:
    """Refuse checkpoint callbacks that save inside an RL step.

    Raises:
        ValueError: naming the callback and its option.
    """
    for callback in cast(Any, trainer).callbacks:
        if not isinstance(callback, Checkpoint):
            continue
        for name in ("every_n_train_steps", "train_time_interval"):
            if getattr(callback, f"_{name}", None):
                raise ValueError(
                    f"{type(callback).__name__}.{name} saves inside an RL step, whose rollouts are "
                    "not saved: use every_n_epochs, an epoch is an RL step"
                )

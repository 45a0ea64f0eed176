"""Checkpoints between RL steps, when no rollout is in flight and resuming is exact."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.fabric.utilities.apply_func import convert_tensors_to_scalars
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor

from gtpo_lit.best_step import BestStep
from gtpo_lit.checkpoint_io import write_straight
from gtpo_lit.checkpoint_writing import remove_partials, write_checkpoint
from gtpo_lit.durable import remove
from gtpo_lit.rng_streams import restore_rank, rng_state
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger

_BETWEEN = "an RL step is one epoch, and rollouts in flight are not saved; use every_n_epochs"


class RunCheckpoint(ModelCheckpoint):
    """Saves `checkpoints/step=NNNN.ckpt` of the run folder at the end of RL step NNNN.

    The row of a step is in `metrics.csv` before its checkpoint appears, so that a run which is
    killed in between loses nothing. The checkpoint is written under another name, brought to the
    disk and then renamed: what is named `step=NNNN.ckpt` is complete. A sharded one is a folder.
    It holds policy, optimiser, schedule, counters, data position, states of the callbacks and the
    random streams of all ranks; of the reference only a hash.
    """

    def __init__(
        self,
        *,
        every_n_epochs: int = 1,
        keep_last: int | None = None,
        best_of: str | None = None,
        best_mode: Literal["max", "min"] = "max",
        save_weights_only: bool = False,
        every_n_train_steps: int | None = None,
        train_time_interval: timedelta | None = None,
    ) -> None:
        """Check the options.

        Args:
            every_n_epochs: RL steps between checkpoints; the last RL step always gets one.
            keep_last: number of newest checkpoints to keep; None keeps all. The one that the run
                was resumed from is never removed.
            best_of: validation metric, such as `val/chains/pass@1`. The step with its best value
                is saved whatever `every_n_epochs` says, and kept beside the newest; its name is
                in `best.json`. Of equal values the first one counts.
            best_mode: whether more (max) or less (min) of it is better.
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
        self.best = BestStep(best_of, best_mode)
        self.save_this_step = False
        """Whether the RL step that ends now is saved whatever `every_n_epochs` says."""

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
        write_straight(trainer)
        if stage == "fit" and trainer.is_global_zero and self.dirpath:
            remove_partials(Path(self.dirpath))

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
            self.save_this_step
            or self.best.step == trainer.current_epoch + 1
            or trainer.should_stop
            or trainer.current_epoch + 1 == trainer.max_epochs
            or trainer.global_step == trainer.max_steps
        )
        every, self._every_n_epochs = self._every_n_epochs, 1 if last else self._every_n_epochs
        super().on_train_epoch_end(trainer, pl_module)
        self._every_n_epochs = every
        self._remove_old(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """See whether the step is the best one."""
        super().on_validation_end(trainer, pl_module)
        self.best.look(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Note the number of completed RL steps inside the file."""
        # This count is raised just before the epoch's last hooks, where `current_epoch` lags.
        progress = trainer.fit_loop.epoch_progress.current.state_dict()
        checkpoint["rl_step"] = progress["processed"]
        checkpoint["rng"] = all_gather(rng_state())

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Set the random streams, before anything of the run has drawn from them."""
        if trainer.state.fn == "fit" and "rng" in checkpoint:
            restore_rank(checkpoint["rng"], rank=trainer.global_rank, ranks=trainer.world_size)

    @property
    def last_saved(self) -> str:
        """Path of the newest checkpoint that this process wrote; empty before the first."""
        return self._last_checkpoint_saved

    @property
    def state_key(self) -> str:
        """Under which a checkpoint keeps the state; other options leave it valid."""
        return "RunCheckpoint"

    def state_dict(self) -> dict[str, Any]:
        """The best step; the folder itself says which checkpoints there are."""
        return {"best": self.best.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Know what to beat; in another folder, the best checkpoint so far stays where it is."""
        if "best" in state_dict:
            self.best.load_state_dict(state_dict["best"])

    def _monitor_candidates(self, trainer: Trainer) -> dict[str, Tensor]:
        # The name of a checkpoint counts RL steps, where Lightning counts optimiser steps.
        return {"step": torch.tensor(trainer.current_epoch + 1)}

    def _save_checkpoint(self, trainer: Trainer, filepath: str) -> None:
        last = self._last_checkpoint_saved or str(trainer.ckpt_path or "none")
        write_checkpoint(trainer, Path(filepath), weights_only=self.save_weights_only, last=last)
        self._last_global_step_saved = trainer.global_step
        self._last_checkpoint_saved = filepath

    def _remove_old(self, trainer: Trainer) -> None:
        if not self.dirpath or not trainer.is_global_zero:
            return
        folder = RunFolder(path=Path(self.dirpath).parent)
        best = self.best.step
        if best is not None and folder.checkpoint(best).exists():
            content = {**self.best.state_dict(), "checkpoint": folder.checkpoint(best).name}
            folder.write_json("best.json", content)
        steps = folder.checkpoint_steps()
        for step in steps[: -self.keep_last] if self.keep_last is not None else []:
            path = folder.checkpoint(step)
            # The path of the one that was resumed from may be written in another way.
            resumed = trainer.ckpt_path and Path(trainer.ckpt_path).resolve() == path.resolve()
            if step != best and not resumed:
                remove(path)


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

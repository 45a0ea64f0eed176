"""A progress bar that counts RL steps."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.trainer.states import TrainerFn

_SHOWN = {
    "reward": "train/reward/mean",
    "entropy": "train/entropy/mean",
    "length": "train/length/mean",
}


class StepProgressBar(ProgressBar):
    """One line for RL steps done and time left, with reward, entropy and length.

    On a terminal the line is redrawn at each step; elsewhere, as in a log file, a new line is
    printed every few steps. A step is shown once all its metrics are known, that is when the next
    one starts. `validate` and `test` count batches of problems, set by set, in the same way.
    """

    def __init__(self, lines: int = 20) -> None:
        """Check the options.

        Args:
            lines: about how many lines a whole run prints where output is not a terminal.

        Raises:
            ValueError: if `lines` is below 1.
        """
        super().__init__()
        if lines < 1:
            raise ValueError(f"lines={lines} is below 1")
        self.lines = lines
        self._enabled = True
        self._started = 0.0
        self._first = 0
        self._shown = 0

    def disable(self) -> None:
        """Print nothing, as on all ranks but zero."""
        self._enabled = False

    def enable(self) -> None:
        """Print again."""
        self._enabled = True

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._first = self._shown = trainer.current_epoch

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the step before this one."""
        self._show(trainer, done=trainer.current_epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the last step."""
        self._show(trainer, done=trainer.current_epoch, last=True)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Show how far `validate` has come; within `fit` the line of steps stays."""
        if trainer.state.fn != TrainerFn.FITTING:
            self._show_evaluation(trainer.num_val_batches, batch_idx, dataloader_idx)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Show how far `test` has come."""
        self._show_evaluation(trainer.num_test_batches, batch_idx, dataloader_idx)

    def _show_evaluation(self, batches: Sequence[float], batch_idx: int, number: int) -> None:
        total, done = int(batches[number]), batch_idx + 1
        terminal = sys.stdout.isatty()
        every = 1 if terminal else max(1, math.ceil(total / self.lines))
        if self._enabled and (done == total or done % every == 0):
            line = f"evaluating set {number + 1}/{len(batches)}, batch {done}/{total}"
            end = "" if terminal and done < total else "\n"
            print(f"\r\x1b[K{line}" if terminal else line, end=end, flush=True)

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print without spoiling the line."""
        if self._enabled:
            print(*args, **kwargs)

    def _show(self, trainer: Trainer, *, done: int, last: bool = False) -> None:
        terminal = sys.stdout.isatty()
        if self._enabled and done > self._shown:
            total = _total(trainer)
            every = 1 if terminal else max(1, math.ceil((total or 0) / self.lines))
            if last or done % every == 0 or self._shown == self._first:
                self._shown = done
                seconds = (time.monotonic() - self._started) / (done - self._first)
                line = progress_line(done, total, seconds, trainer.callback_metrics)
                print(f"\r\x1b[K{line}" if terminal else line, end="" if terminal else "\n")
        if self._enabled and last and terminal:
            print()
        sys.stdout.flush()


def progress_line(done: int, total: int | None, seconds: float, metrics: Mapping[str, Any]) -> str:
    """The text of one line; `seconds` is the mean time of a step.

    >>> progress_line(12, 80, 0.5, {"train/reward/mean": 0.40625, "train/length/mean": 14.25})
    'step 12/80 | 0.50 s/step, 0:34 left | reward 0.4062 | length 14.25'
    """
    parts = [f"step {done}" if total is None else f"step {done}/{total}", f"{seconds:.2f} s/step"]
    if total is not None:
        left = round(seconds * (total - done))
        hours, rest = divmod(left, 3600)
        clock = f"{rest // 60}:{rest % 60:02d}"
        parts[1] += f", {f'{hours}:{rest // 60:02d}:{rest % 60:02d}' if hours else clock} left"
    parts += [f"{label} {float(metrics[n]):.4g}" for label, n in _SHOWN.items() if n in metrics]
    return " | ".join(parts)


def _total(trainer: Trainer) -> int | None:
    epochs = trainer.max_epochs
    return None if epochs is None or epochs < 0 else epochs

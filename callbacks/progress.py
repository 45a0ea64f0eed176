"""A progress bar that counts RL steps."""

from __future__ import annotations

import sys
import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar

SHOWN = (
    ("reward", "train/reward/mean"),
    ("entropy", "train/entropy/mean"),
    ("length", "train/length/mean"),
)


class StepProgressBar(ProgressBar):
    """One line that is rewritten on a terminal, and one line every few steps elsewhere.

    Shows the RL step, the time left, and the step's reward, entropy and length.

    Args:
        every: RL steps between lines where the output is not a terminal.
    """

    def __init__(self, every: int = 5) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"StepProgressBar.every must be at least 1, got {every}")
        self.every = every
        self._enabled = True
        self._start = 0.0
        self._first = 0

    def disable(self) -> None:
        """Lightning calls this on all ranks but the first."""
        self._enabled = False

    def enable(self) -> None:
        """Show the bar again."""
        self._enabled = True

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say what takes the time before the first step."""
        if self._enabled:
            print("validating before training", flush=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        self._start, self._first = time.monotonic(), trainer.current_epoch

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the step that has just ended."""
        step, total = trainer.current_epoch + 1, trainer.max_epochs or 0
        done = step - self._first
        left = (time.monotonic() - self._start) / max(1, done) * (total - step)
        line = progress_line(step, total, left, trainer.callback_metrics)
        if not self._enabled:
            return
        if sys.stdout.isatty():
            sys.stdout.write("\r\x1b[K" + line + ("\n" if step == total else ""))
            sys.stdout.flush()
        elif step % self.every == 0 or step == total or done == 1:
            print(line, flush=True)


def progress_line(step: int, total: int, seconds_left: float, metrics: Any) -> str:
    """Such as ``step 5/80  1:15 left  reward 0.41  entropy 0.52  length 9.8``.

    Example:
        >>> progress_line(5, 80, 75.2, {"train/reward/mean": 0.41})
        'step 5/80  1:15 left  reward 0.410'
    """
    minutes, seconds = divmod(int(seconds_left), 60)
    parts = [f"step {step}/{total}", f"{minutes}:{seconds:02d} left"]
    parts += [f"{label} {float(metrics[name]):.3f}" for label, name in SHOWN if name in metrics]
    return "  ".join(parts)

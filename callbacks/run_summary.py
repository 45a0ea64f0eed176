"""The end of a run: `summary.json`, `curves.png` and the last line."""

from __future__ import annotations

import os
import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.pass_at_k import PassAtK
from gtpo_lit.plots import draw_curves
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger


class RunSummary(Callback):
    """Writes the results when `fit` ends and prints `val/<set>/pass@1: <before> -> <after>`.

    `before` and `after` come from `PassAtK`, which carries them through a resume; without the
    validation before training (`num_sanity_val_steps=-1`) the line says `nan`.
    """

    def __init__(self, curves: bool = True) -> None:
        """Do nothing yet.

        Args:
            curves: draw `curves.png`.
        """
        self.curves = curves
        self._started = 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write and print, on rank zero; an exception in `fit` does not get here."""
        if not trainer.is_global_zero:
            return
        # Lightning sets the list without declaring it.
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        found = (callback for callback in callbacks if isinstance(callback, PassAtK))
        pass_at_k = next(found, None) or PassAtK()
        logger = find_run_logger(trainer)
        if logger is not None:
            content = summary(trainer, pass_at_k, logger.folder)
            content["seconds"] = round(time.monotonic() - self._started, 3)
            logger.folder.write_summary(content)
            metrics = logger.folder.metrics
            if self.curves and metrics.is_file() and metrics.stat().st_size:
                draw_curves(logger.folder.path)
        for line in last_lines(pass_at_k):
            print(line, flush=True)


def summary(trainer: Trainer, pass_at_k: PassAtK, folder: RunFolder) -> dict[str, Any]:
    """What `summary.json` holds, without the time."""
    newest = folder.newest_checkpoint()
    reached = trainer.max_epochs is not None and trainer.current_epoch >= trainer.max_epochs >= 0
    return {
        "finished": reached or 0 <= trainer.max_steps <= trainer.global_step,
        "rl_steps": trainer.current_epoch,
        "optimiser_steps": trainer.global_step,
        "val": {
            "before": pass_at_k.before,
            "after": pass_at_k.latest,
            "after_rl_step": pass_at_k.latest_step,
            "best": {
                name: {"value": value, "rl_step": step}
                for name, (value, step) in pass_at_k.best.items()
            },
        },
        "newest_checkpoint": None if newest is None else os.path.relpath(newest, folder.path),
    }


def last_lines(pass_at_k: PassAtK) -> list[str]:
    """`val/<set>/pass@1: <before> -> <after>`, one line a validation set."""
    names = [name for name in {**pass_at_k.before, **pass_at_k.latest} if name.endswith("/pass@1")]
    return [
        f"{name}: {pass_at_k.before.get(name, float('nan')):.4f}"
        f" -> {pass_at_k.latest.get(name, float('nan')):.4f}"
        for name in names
    ]

"""The end of a run: `summary.json`, `curves.png` and the last line."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.pass_at_k import PassAtK
from gtpo_lit.plots import draw_curves
from gtpo_lit.run_folder import RunFolder, read_metrics
from gtpo_lit.run_logger import find_run_logger


class RunSummary(Callback):
    """Writes the results when `fit` ends and prints them: `val/<set>/pass@1: <before> -> <after>`.

    Lines before that say where the run is and how long it took, where time went if `Throughput`
    watched, and the best pass@1 of each set that was not the last.

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
            print(where_line(logger.folder, content), flush=True)
            for line in time_lines(logger.folder):
                print(line, flush=True)
        for line in [*best_lines(pass_at_k), *last_lines(pass_at_k)]:
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


def where_line(folder: RunFolder, content: Mapping[str, Any]) -> str:
    """How far the run came, how long this process took, and where everything is."""
    minutes, seconds = divmod(round(content["seconds"]), 60)
    clock = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
    return f"{content['rl_steps']} RL steps, this process {clock}; everything is in {folder.path}"


def time_lines(folder: RunFolder) -> list[str]:
    """Where the time of all steps went, and tokens a second; nothing without `Throughput`."""
    if not folder.timing.is_file() or not folder.timing.stat().st_size:
        return []
    times = read_metrics(folder.timing)
    wanted = ("time/step_seconds", "time/tokens_per_second")
    if any(name not in times for name in wanted):
        return []
    # Steps that ran before Throughput was added have none.
    step, speed = ([v for v in times[name] if not math.isnan(v)] for name in wanted)
    whole = math.fsum(step)
    ends = "_fraction"
    shares = {}
    for name in times:
        if name.startswith("time/") and name.endswith(ends):
            pairs = zip(times[name], times["time/step_seconds"], strict=True)
            part = math.fsum(a * b for a, b in pairs if not math.isnan(a * b))
            shares[name.removeprefix("time/").removesuffix(ends)] = part / whole
    parts = ", ".join(
        f"{name} {share:.0%}" for name, share in sorted(shares.items(), key=lambda item: -item[1])
    )
    tokens = math.fsum(a * b for a, b in zip(step, speed, strict=True))
    return [f"time: {parts}; {whole / len(step):.3g} s a step, {tokens / whole:.0f} tokens/s"]


def best_lines(pass_at_k: PassAtK) -> list[str]:
    """The best pass@1 of each set, where a later validation was worse."""
    return [
        f"best {name}: {value:.4f} after RL step {step}"
        for name, (value, step) in pass_at_k.best.items()
        if name.endswith("/pass@1") and value > pass_at_k.latest.get(name, value)
    ]

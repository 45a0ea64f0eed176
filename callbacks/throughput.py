"""How fast a run is, where its time goes, and how much memory it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.step_rollouts import log_step, step_rollouts
from gtpo_lit.types import Rollouts

PARTS = ("push", "sampling", "reward", "scoring", "training")


class Throughput(Callback):
    """Logs tokens a second, shares of an RL step's time, and peaks of memory, into `timing.csv`.

    * `time/step_seconds`, `time/training_seconds`: the whole step without validation; forward,
      backward and optimiser of all micro-batches.
    * `time/<part>_fraction`: share of the step that `push`, `sampling`, `reward`, `scoring`,
      `training` and everything else, `other`, took.
    * `time/sampling_tokens_per_second`: response tokens of the step, of all ranks, by the seconds
      that sampling took; `time/scoring_tokens_per_second` and `time/training_tokens_per_second`:
      prompt and response tokens that went through the model, once for each pass;
      `time/tokens_per_second`: response tokens by the whole step.
    * `memory/cpu_peak_bytes`: most memory that the process had resident so far;
      `memory/gpu_peak_bytes`: most that torch held on the device so far, where it is a GPU.

    Seconds and bytes are rank zero's. With dynamic sampling only the kept groups count as tokens.
    """

    def __init__(self) -> None:
        self._begun = 0.0
        self._batch_begun = 0.0
        self._training = 0.0
        self._step = 0.0

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the step's clock, before its rollouts are collected."""
        self._begun, self._training = time.perf_counter(), 0.0

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Start the clock of a micro-batch."""
        self._batch_begun = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop both clocks; a GPU is waited for once a step."""
        if trainer.is_last_batch and pl_module.device.type == "cuda":
            torch.cuda.synchronize(pl_module.device)
        now = time.perf_counter()
        self._training += now - self._batch_begun
        self._step = now - self._begun

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the step's numbers; what validation took is not in them."""
        rollouts = step_rollouts(trainer, type(self).__name__)
        data = getattr(trainer, "datamodule", None)
        seconds = {**getattr(data, "seconds", {}), "training": self._training}
        passes = int(getattr(data, "passes", 1))
        log_step(pl_module, speeds(rollouts, seconds, self._step, passes=passes))
        log_step(pl_module, memory_peaks(pl_module.device))


def speeds(
    rollouts: Rollouts, seconds: Mapping[str, float], step: float, *, passes: int = 1
) -> dict[str, float]:
    """Times, shares and tokens a second by metric name.

    Args:
        rollouts: of the step, all ranks.
        seconds: by part; a part that was not measured is left out.
        step: seconds of the whole step.
        passes: how often the step's rollouts were trained on.
    """
    written, read = int(rollouts.mask.sum()), int(rollouts.attention_mask.sum())
    tokens = {"sampling": written, "scoring": read, "training": read * passes}
    found = {"time/step_seconds": step, "time/training_seconds": seconds["training"]}
    if step > 0:
        known = {part: seconds[part] / step for part in PARTS if part in seconds}
        known["other"] = max(0.0, 1.0 - sum(known.values()))
        found |= {f"time/{part}_fraction": share for part, share in known.items()}
        found["time/tokens_per_second"] = written / step
    for part, count in tokens.items():
        if seconds.get(part, 0.0) > 0:
            found[f"time/{part}_tokens_per_second"] = count / seconds[part]
    return found


def memory_peaks(device: torch.device) -> dict[str, float]:
    """Peaks of this process in bytes by metric name; what the system does not tell is left out."""
    found = {}
    try:
        import resource
    except ImportError:  # only POSIX has it
        pass
    else:
        # Linux counts KiB, macOS bytes.
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
        found["memory/cpu_peak_bytes"] = float(peak)
    if device.type == "cuda":
        found["memory/gpu_peak_bytes"] = float(torch.cuda.max_memory_allocated(device))
    return found

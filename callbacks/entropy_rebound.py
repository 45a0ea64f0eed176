"""Does entropy rebound after its fall, or collapse."""

from __future__ import annotations

import math
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from callbacks.entropy_monitor import entropy_means
from callbacks.step_rollouts import log_step, step_rollouts
from gtpo_lit.evaluation import Rebound, entropy_rebound
from gtpo_lit.run_logger import find_run_logger

MEAN = "train/entropy/mean"
SHORTEST = 8


class EntropyCollapseError(RuntimeError):
    """Entropy stayed below its threshold and `on_collapse` is "stop"; every rank raises it."""


class EntropyRebound(Callback):
    """Follows the mean entropy of a run: its low so far, its rise since, and whether it collapses.

    Logs `train/entropy/smoothed` (mean of the last `window` steps), `train/entropy/low` and
    `train/entropy/low_step` (the lowest of these and its RL step) and `train/entropy/rebound` (how
    far the smoothed entropy is above its low now), in nats. When `fit` ends, the whole curve is
    judged by `gtpo_lit.evaluation.entropy_rebound`; the verdict, with an interval that allows for
    noise, is printed and written to `entropy_rebound.json` in the run folder.

    Entropy has collapsed when the smoothed entropy is below `collapse` nats for `patience` RL
    steps in a row: that is said once, or ends the run. Curve and alarm survive a resume. Steps
    without entropies are left out.
    """

    def __init__(
        self,
        window: int = 5,
        collapse: float | None = 0.01,
        patience: int = 5,
        on_collapse: Literal["warn", "stop"] = "warn",
    ) -> None:
        """Check the options.

        Args:
            window: RL steps that are averaged.
            collapse: nats a token below which entropy has collapsed; None raises no alarm.
            patience: RL steps in a row that raise the alarm.
            on_collapse: "warn" once, or "stop" the run.

        Raises:
            ValueError: for a window or patience below 1, a threshold that is not positive and
                finite, or an unknown `on_collapse`.
        """
        for name, number in (("window", window), ("patience", patience)):
            if number < 1:
                raise ValueError(f"EntropyRebound: {name} must be at least 1, got {number}")
        if collapse is not None and not 0 < collapse < math.inf:
            raise ValueError(f"EntropyRebound: collapse must be above 0 or null, got {collapse}")
        if on_collapse not in ("warn", "stop"):
            raise ValueError(f"EntropyRebound: on_collapse must be warn or stop, got {on_collapse}")
        self.window = window
        self.collapse = collapse
        self.patience = patience
        self.on_collapse = on_collapse
        self.steps: list[int] = []
        self.values: list[float] = []
        """Mean entropy after each of `steps`, in nats."""
        self.smoothed: list[float] = []
        self._warned = False

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the step in and log.

        Raises:
            EntropyCollapseError: on every rank, if entropy collapsed and the run is to stop.
        """
        means = entropy_means(step_rollouts(trainer, type(self).__name__))
        if MEAN not in means:
            return
        log_step(pl_module, self.update(trainer.current_epoch + 1, means[MEAN]))
        if not self.collapsed:
            return
        text = (
            f"entropy has collapsed: its mean over {self.window} steps was below "
            f"{self.collapse:g} nats for {self.patience} RL steps, now {self.smoothed[-1]:.3g} "
            f"(RL step {self.steps[-1]})"
        )
        if self.on_collapse == "stop":
            raise EntropyCollapseError(text)
        if not self._warned:
            self._warned = True
            rank_zero_warn(text)

    def update(self, step: int, value: float) -> dict[str, float]:
        """Add a step's mean entropy in nats; the numbers to log."""
        self.steps.append(step)
        self.values.append(value)
        newest = self.values[-self.window :]
        self.smoothed.append(math.fsum(newest) / len(newest))
        low = min(self.smoothed)
        return {
            "train/entropy/smoothed": self.smoothed[-1],
            "train/entropy/low": low,
            "train/entropy/low_step": float(self.steps[self.smoothed.index(low)]),
            "train/entropy/rebound": self.smoothed[-1] - low,
        }

    @property
    def collapsed(self) -> bool:
        """Whether the last `patience` steps lie below the threshold."""
        newest = self.smoothed[-self.patience :]
        return (
            self.collapse is not None
            and len(newest) == self.patience
            and max(newest) < self.collapse
        )

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Judge the whole curve, print and write the verdict on rank zero."""
        if not trainer.is_global_zero or len(self.values) < SHORTEST:
            return
        found = entropy_rebound(self.steps, self.values)
        logger = find_run_logger(trainer)
        if logger is not None:
            logger.folder.write_json("entropy_rebound.json", as_json(found))
        print(verdict(found), flush=True)

    def state_dict(self) -> dict[str, Any]:
        """The curve and the alarm."""
        return {"steps": list(self.steps), "values": list(self.values), "warned": self._warned}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with the curve."""
        self.steps, self.values, self.smoothed = [], [], []
        for step, value in zip(state_dict["steps"], state_dict["values"], strict=True):
            self.update(int(step), float(value))
        self._warned = bool(state_dict["warned"])


def as_json(found: Rebound) -> dict[str, float | bool | None]:
    """What `entropy_rebound.json` holds; `share` is null where entropy never fell."""
    return {
        "found": found.found,
        "start": found.start,
        "low": found.low,
        "low_step": found.low_step,
        "top": found.top,
        "top_step": found.top_step,
        "height": found.height,
        "height_low": found.interval.low,
        "height_high": found.interval.high,
        "share": None if math.isnan(found.share) else found.share,
        "fall_p": found.fall_p,
        "rise_p": found.rise_p,
    }


def verdict(found: Rebound) -> str:
    """One line about a curve."""
    fell = f"entropy {found.start:.4g} -> {found.low:.4g} nats at RL step {found.low_step:g}"
    if not found.found:
        return f"{fell}; no rebound beyond noise (p = {max(found.fall_p, found.rise_p):.2g})"
    ends = f"{found.interval.low:.3g} to {found.interval.high:.3g}"
    return (
        f"{fell}, then up by {found.height:.3g} ({ends}) to {found.top:.4g} at step "
        f"{found.top_step:g}: {found.share:.0%} of the fall"
    )

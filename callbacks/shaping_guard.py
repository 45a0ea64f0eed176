"""Stops a run whose entropy shaping leaks reward mass, or shapes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

GAP = "train/shaping/conservation_gap"
COULD = "train/shaping/shapeable_fraction"
DID = "train/shaping/shaped_fraction"


class ShapingError(RuntimeError):
    """Entropy shaping does not do what its equations say; every rank raises it."""


class ShapingGuard(Callback):
    """Looks at each RL step's shaping numbers before the step's first update, and stops the run.

    It stops when `train/shaping/conservation_gap` is above `tolerance` or NaN, and when for
    `patience` RL steps in a row `train/shaping/shapeable_fraction` was above 0 (the entropy weight
    is positive, and in a mixed group two members of one side differ in what they have read at some
    position) while
    `train/shaping/shaped_fraction` was 0 (no advantage differed from what even shares give). A step
    that could not shape ends the row. No weight moves in the step that is stopped, its row is not
    in `metrics.csv`, and the checkpoints of the steps before it stay.

    The numbers are the algorithm's own, of the whole step on all ranks; all ranks judge those of
    rank zero. With an algorithm that logs none, the guard says so once and does nothing.
    """

    def __init__(self, tolerance: float = 1e-4, patience: int | None = 10) -> None:
        """Check the options.

        Args:
            tolerance: largest conservation gap; float32 rounding is below 1e-6.
            patience: RL steps in a row that may shape nothing although they could, the last of
                which stops the run; None never stops for that.

        Raises:
            ValueError: for a tolerance that is not positive and finite, or a patience below 1.
        """
        if not 0 < tolerance < math.inf:
            raise ValueError(f"ShapingGuard: tolerance must be above 0 and finite, got {tolerance}")
        if patience is not None and patience < 1:
            raise ValueError(f"ShapingGuard: patience must be at least 1 or null, got {patience}")
        self.tolerance = tolerance
        self.patience = patience
        self.streak = 0
        """RL steps in a row that could shape and did not, the newest included."""
        self._said = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Check that there will be numbers to look at, before any weights load.

        Raises:
            ValueError: if the datamodule keeps none.
        """
        if stage == "fit":
            _step_metrics(trainer)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """At the step's first micro-batch, when its credit is known and no weight has moved, judge.

        Raises:
            ShapingError: on every rank, with step, value, tolerance and what to look at.
        """
        if batch_idx > 0:
            return
        # One rank's numbers decide for all, so that none goes on alone after a rounding error.
        numbers = trainer.strategy.broadcast(_step_metrics(trainer))
        if GAP not in numbers:
            self._say_once(trainer, pl_module)
            return
        complaint = self.judge(numbers)
        if complaint is not None:
            raise ShapingError(_message(complaint, numbers, trainer))

    def judge(self, numbers: Mapping[str, float]) -> str | None:
        """What is wrong with a step, None if nothing is; counts the steps that shape nothing.

        Args:
            numbers: the step's metrics by name.
        """
        shaped_nothing = numbers.get(COULD, 0.0) > 0 and numbers.get(DID, 0.0) == 0
        self.streak = self.streak + 1 if shaped_nothing else 0
        # Written so that NaN does not pass.
        if not numbers[GAP] <= self.tolerance:
            return (
                f"{GAP} is {numbers[GAP]:.6g}, not within the tolerance {self.tolerance:g}: the "
                "shaped rewards of a side do not sum to what docs/equations.md says. Look at what "
                "computes them (the algorithm's `shaped`), and for NaN or negative values in "
                "entropies and rewards"
            )
        if self.patience is not None and self.streak >= self.patience:
            return (
                f"{DID} was 0 for {self.streak} RL steps in a row (patience {self.patience}) "
                f"although {COULD} is {numbers[COULD]:.4g}: no advantage differs by more than 1e-4 "
                "from what even shares give. Look at train/entropy/* (all equal or all 0?), at "
                "train/shaping/saturated_fraction (1 if floor or clip hold every entropy fast), at "
                "the entropy weight against the outcome's, and at the algorithm's `advantages`"
            )
        return None

    def state_dict(self) -> dict[str, Any]:
        """The steps in a row, so that a resumed run stops where an unbroken one does."""
        return {"streak": self.streak}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on counting."""
        self.streak = int(state_dict["streak"])

    def _say_once(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and not self._said:
            name = type(getattr(pl_module, "algorithm", pl_module)).__name__
            print(f"ShapingGuard: {name} logs no {GAP}, so there is nothing to guard", flush=True)
        self._said = True


def _step_metrics(trainer: Trainer) -> dict[str, float]:
    numbers = getattr(getattr(trainer, "datamodule", None), "step_metrics", None)
    if not isinstance(numbers, dict):
        raise ValueError(
            "ShapingGuard reads trainer.datamodule.step_metrics, which is "
            f"{type(numbers).__name__}; it needs a RolloutDataModule"
        )
    return numbers


def _message(complaint: str, numbers: Mapping[str, float], trainer: Trainer) -> str:
    saved = getattr(trainer.checkpoint_callback, "last_saved", "") or trainer.ckpt_path
    shown = ", ".join(
        f"{name} = {value:.6g}"
        for name, value in sorted(numbers.items())
        if name.startswith(("train/shaping/", "train/groups/"))
    )
    return (
        f"in RL step {trainer.current_epoch + 1}, {complaint}. No weight moved in this step; last "
        f"checkpoint: {saved or 'none'}. All of the step: {shown}"
    )

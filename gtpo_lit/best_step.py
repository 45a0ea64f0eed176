"""The RL step whose validation was best so far."""

from __future__ import annotations

import math
from typing import Any, Literal

from lightning.pytorch import Trainer


class BestStep:
    """Compares a validation metric from step to step.

    Args:
        metric: such as `val/chains/pass@1`; None compares nothing.
        mode: whether more or less of it is better.

    Raises:
        ValueError: naming option and value.
    """

    def __init__(self, metric: str | None, mode: Literal["max", "min"] = "max") -> None:
        if mode not in ("max", "min"):
            raise ValueError(f"RunCheckpoint: best_mode must be max or min, got {mode!r}")
        if metric is not None and not metric.startswith("val/"):
            raise ValueError(
                f"RunCheckpoint: best_of must be a metric val/<set>/..., got {metric!r}"
            )
        self.metric = metric
        self.mode = mode
        self.step: int | None = None
        """RL steps completed then; None before the first validation of a trained policy."""
        self.value = math.nan

    def look(self, trainer: Trainer) -> None:
        """Take in the validation that just ended, on all ranks, before the step is saved.

        Raises:
            ValueError: if the metric is none of those that were logged.
        """
        if self.metric is None or trainer.state.fn != "fit":
            return
        value = trainer.callback_metrics.get(self.metric)
        if value is None:
            known = sorted(name for name in trainer.callback_metrics if name.startswith("val/"))
            raise ValueError(
                f"RunCheckpoint: best_of = {self.metric!r} is none of {', '.join(known)}"
            )
        if trainer.sanity_checking:
            return
        # One rank's number decides for all.
        number = float(trainer.strategy.broadcast(float(value)))
        sign = 1 if self.mode == "max" else -1
        if not math.isnan(number) and (self.step is None or sign * number > sign * self.value):
            self.step, self.value = trainer.current_epoch + 1, number

    def state_dict(self) -> dict[str, Any]:
        """What to beat after a resume."""
        return {"metric": self.metric, "mode": self.mode, "step": self.step, "value": self.value}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there, if it is the same comparison."""
        if (state.get("metric"), state.get("mode")) == (self.metric, self.mode):
            self.step, self.value = state["step"], state["value"]

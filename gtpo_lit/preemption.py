"""SIGTERM, as a scheduler sends it before it takes a machine away: what is done is kept."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections import deque
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from gtpo_lit.run_checkpoint import RunCheckpoint

PREEMPTED = 75
"""Exit code of a run that SIGTERM ended; EX_TEMPFAIL of sysexits.h, "try again later"."""

RECENT_STEPS = 3


class Preempted(SystemExit):
    """The run ends here, with a code of its own, and can go on from its last checkpoint."""

    def __init__(self) -> None:
        super().__init__(PREEMPTED)


class Preemption(Callback):
    """Ends a run on SIGTERM: at once, or after the RL step if that fits.

    The rest of the step is estimated as the longest of the last three whole steps, validation and
    checkpoint included, less what has passed of it. If that is at most `grace_seconds` the step
    goes to its end and is saved; else the run stops where it is, and resuming repeats the step. If
    several ranks train, one that stops at once ends all, and all stop together after a step.

    Args:
        grace_seconds: what the scheduler leaves between SIGTERM and SIGKILL, or less.
    """

    def __init__(self, grace_seconds: float = 0.0) -> None:
        self.grace_seconds = grace_seconds
        self._asked = False
        self._began: float | None = None
        self._steps: deque[float] = deque(maxlen=RECENT_STEPS)
        self._trainer: Trainer | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take SIGTERM over from Lightning, whose handler would wait for other ranks."""
        self._trainer = trainer
        if stage == "fit" and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.on_signal)

    def on_signal(self, number: int, frame: Any) -> None:
        """Decide what becomes of the step.

        Raises:
            Preempted: it does not fit into `grace_seconds`.
        """
        left = self.seconds_left()
        if left is None or left > self.grace_seconds:
            self._say("stops at once")
            raise Preempted
        self._asked = True
        print(
            f"gtpo-lit: SIGTERM: RL step {self._step()} ends in about {left:.0f} s, within "
            f"run.grace_seconds = {self.grace_seconds:g}; the run stops after it",
            file=sys.stderr,
            flush=True,
        )

    def seconds_left(self) -> float | None:
        """Estimated rest of the current RL step; None if nothing is known of it."""
        if self._began is None or not self._steps:
            return None
        return max(0.0, max(self._steps) - (time.monotonic() - self._began))

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop between two RL steps if asked to; else begin to take the time.

        Raises:
            Preempted: on all ranks, if SIGTERM came in the step before.
        """
        now = time.monotonic()
        if self._began is not None:
            self._steps.append(now - self._began)
        if self._stops(trainer):
            self._say("stops")
            raise Preempted
        self._began = now

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let the last step be saved, however seldom checkpoints are written."""
        if self._stops(trainer):
            for callback in trainer.checkpoint_callbacks:
                if isinstance(callback, RunCheckpoint):
                    callback.save_this_step = True

    def _stops(self, trainer: Trainer) -> bool:
        """Whether any rank was asked to stop."""
        if trainer.world_size == 1:
            return self._asked
        stops: bool = trainer.strategy.reduce_boolean_decision(self._asked, all=False)
        return stops

    def _step(self) -> int:
        assert self._trainer is not None
        return int(self._trainer.current_epoch) + 1

    def _say(self, what: str) -> None:
        trainer = self._trainer
        assert trainer is not None
        saved = getattr(trainer.checkpoint_callback, "last_saved", "")
        last = saved or trainer.ckpt_path or "none yet, so that the run starts anew"
        print(
            f"gtpo-lit: SIGTERM: the run {what} in RL step {self._step()}; last complete "
            f"checkpoint: {last}. --ckpt_path last goes on from there",
            file=sys.stderr,
            flush=True,
        )

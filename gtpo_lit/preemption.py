"""SIGTERM, as a scheduler sends it before it takes a machine away: what is done is kept."""

from __future__ import annotations

import sys
import threading
from typing import Any

from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.connectors.signal_connector import _SignalConnector

from gtpo_lit.run_checkpoint import RunCheckpoint
from gtpo_lit.step_times import StepTimes
from gtpo_lit.stop_notice import PREEMPTED, StopNotice


class Preempted(SystemExit):
    """The run ends here, with a code of its own, and can go on from its last checkpoint.

    Args:
        together: whether all ranks end at this same point, in no collective.
    """

    def __init__(self, *, together: bool) -> None:
        super().__init__(PREEMPTED)
        self.together = together


class Preemption(Callback):
    """Ends a run on SIGTERM, whichever rank gets it: at once, or after the RL step if that fits.

    The rest of the step is estimated as the longest of the recent whole steps, validation (if this
    step has one) and checkpoint included, less what has passed of it. If that is at most
    `grace_seconds`, the step goes to its end and is saved; else the run stops where it is, and
    resuming repeats the step. The first rank that is told decides for all. The last step of a run
    ends it as always, with exit code 0.

    Args:
        grace_seconds: what the scheduler leaves between SIGTERM and SIGKILL, or less.
    """

    def __init__(self, grace_seconds: float = 0.0) -> None:
        self.grace_seconds = grace_seconds
        self.times = StepTimes()
        self.notice: StopNotice | None = None
        self._trainer: Trainer | None = None
        self._saved_last = False
        self._announced = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Take SIGTERM over from Lightning, whose handler waits for other ranks within itself."""
        self._trainer = trainer
        trainer._signal_connector = NoSignals(trainer)
        environment = trainer._accelerator_connector.cluster_environment
        if isinstance(environment, SLURMEnvironment):
            # It would save, and requeue, in the middle of a step.
            environment.auto_requeue = False
        if threading.current_thread() is threading.main_thread():
            self.notice = StopNotice(self._fits, grace_seconds=self.grace_seconds)
            self.notice.watch(self.on_signal)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Give SIGTERM back, unless it ends the run already."""
        self._give_back()

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Give SIGTERM back: a run that fails has no teardown, and a notebook goes on."""
        self._give_back()

    def _give_back(self) -> None:
        if self.notice is not None and self.notice.decision is None:
            self.notice.close()

    def on_signal(self, number: int, frame: Any) -> None:
        """Decide what becomes of the step, in the main thread.

        Raises:
            Preempted: it does not fit into `grace_seconds`.
        """
        assert self.notice is not None
        if self.notice.ask() == "stop":
            self.notice.let_others_see()
            self._say(f"stops at once, in RL step {self._step()}")
            raise Preempted(together=False)
        # The thread that listens may have decided before the main thread comes here.
        if not self._announced:
            self._announced = True
            self._print(
                f"RL step {self._step()} is thought to end within run.grace_seconds = "
                f"{self.grace_seconds:g}; the run stops after it"
            )

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop if the step before was saved as the last one; else begin to take the time.

        A signal that comes between the two is obeyed by the next step, which is saved.

        Raises:
            Preempted: on all ranks.
        """
        self.times.end()
        if self._saved_last:
            self._say("stops between two RL steps")
            raise Preempted(together=True)
        every = trainer.check_val_every_n_epoch
        validates = bool(every) and (trainer.current_epoch + 1) % int(every or 1) == 0
        self.times.begin(validates=validates)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let the last step be saved, however seldom checkpoints are written."""
        if self._stops(trainer):
            self._saved_last = True
            for callback in trainer.checkpoint_callbacks:
                if isinstance(callback, RunCheckpoint):
                    callback.save_this_step = True

    def _fits(self) -> bool:
        left = self.times.left()
        return self.grace_seconds > 0 and left is not None and left <= self.grace_seconds

    def _stops(self, trainer: Trainer) -> bool:
        """Whether any rank was asked to stop; the same answer on all."""
        asked = self.notice is not None and self.notice.decision is not None
        if trainer.world_size == 1:
            return asked
        return bool(trainer.strategy.reduce_boolean_decision(asked, all=False))

    def _step(self) -> int:
        assert self._trainer is not None
        return int(self._trainer.current_epoch) + 1

    def _say(self, what: str) -> None:
        trainer = self._trainer
        assert trainer is not None
        saved = getattr(trainer.checkpoint_callback, "last_saved", "")
        last = saved or trainer.ckpt_path or "none yet, so that the run starts anew"
        self._print(
            f"the run {what}; last complete checkpoint: {last}. "
            f"--ckpt_path last goes on from there (exit code {PREEMPTED})"
        )

    def _print(self, text: str) -> None:
        if self._trainer is None or self._trainer.is_global_zero:
            print(f"gtpo-lit: SIGTERM: {text}", file=sys.stderr, flush=True)


class NoSignals(_SignalConnector):
    """Leaves all signals alone; without it no SLURM requeueing in mid-step, either."""

    def register_signal_handlers(self) -> None:
        """Nothing."""

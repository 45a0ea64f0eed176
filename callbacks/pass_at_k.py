"""Pass@k on the validation sets, before, during and after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn

from callbacks.solved_problems import SolvedProblems
from callbacks.step_rollouts import log_step
from gtpo_lit.run_folder import checkpoint_step
from gtpo_lit.run_logger import find_run_logger, log_row
from gtpo_lit.types import Graded


class PassAtK(Callback):
    """Logs `val/<set>/pass@k` and, of the same samples, length, truncation and reward.

    The estimate is `gtpo_lit.evaluation.pass_at_k`, averaged over problems, each of which counts
    once however many ranks evaluate it. With `Trainer(num_sanity_val_steps=-1)` Lightning's sanity
    check is a validation before training: it becomes row 0 of the metrics and is kept in the
    checkpoints, so that `before` is known after any number of resumes. Under `test` the names
    start with `test/`. Outside `fit` a table is printed.
    """

    def __init__(self, k: list[int] | None = None) -> None:
        """Check the options.

        Args:
            k: the values of k; None is every power of two up to the samples drawn.

        Raises:
            ValueError: if a k is below 1.
        """
        if k is not None and (not k or min(k) < 1):
            raise ValueError(f"k={k} needs values of at least 1")
        self.k = k
        self.before: dict[str, float] = {}
        """Metrics of the validation before training."""
        self.latest: dict[str, float] = {}
        """Metrics of the newest validation within `fit`."""
        self.latest_step = 0
        """RL steps completed at that validation."""
        self.best: dict[str, tuple[float, int]] = {}
        """Largest value of each pass@k in `fit`, before training included, with its RL step."""
        self._metrics: list[SolvedProblems] = []
        self._names: list[str] = []

    def state_dict(self) -> dict[str, Any]:
        """What the summary needs from before a resume."""
        kept = ("before", "latest", "latest_step", "best")
        return {name: getattr(self, name) for name in kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what an earlier process measured."""
        self.before = dict(state_dict["before"])
        self.latest = dict(state_dict["latest"])
        self.latest_step = int(state_dict["latest_step"])
        best: Mapping[str, tuple[float, int]] = state_dict["best"]
        self.best = {name: (value, step) for name, (value, step) in best.items()}

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Skip the sanity check of a resumed run, which is past the validation before training.

        Lightning itself skips it only if the checkpoint was written within an epoch.
        """
        if trainer.state.fn == TrainerFn.FITTING:
            trainer.num_sanity_val_steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """After a resume in a new folder, write the row of the validation before training."""
        logger = find_run_logger(trainer)
        if self.before and logger is not None and trainer.is_global_zero and not logger.has_row(0):
            logger.log_row(0, self.before)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start counting."""
        self._start(trainer, pl_module, prefix="val")

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start counting."""
        self._start(trainer, pl_module, prefix="test")

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: list[Graded],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count one batch of graded problems."""
        self._metrics[dataloader_idx].update(batch)

    def on_test_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: list[Graded],
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Count one batch of graded problems."""
        self._metrics[dataloader_idx].update(batch)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log, and within `fit` remember for the summary."""
        values = self._finish(pl_module)
        if trainer.sanity_checking:
            # A shorter check says nothing about the whole set, one before a second `fit` is late.
            whole = trainer.num_sanity_val_batches == trainer.num_val_batches
            if whole and trainer.global_step == 0:
                self.before = values
                self._remember(values, step=0)
                log_row(trainer, 0, values)
        elif trainer.state.fn == TrainerFn.FITTING:
            self.latest, self.latest_step = values, trainer.current_epoch + 1
            self._remember(values, step=self.latest_step)
        elif trainer.is_global_zero:
            print(table(values))

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log and print."""
        values = self._finish(pl_module)
        if trainer.is_global_zero:
            print(table(values))

    def _start(self, trainer: Trainer, pl_module: LightningModule, *, prefix: str) -> None:
        names = getattr(getattr(trainer, "datamodule", None), "validation_names", None)
        if names is None:
            raise ValueError(
                "PassAtK reads trainer.datamodule.validation_names; it needs a RolloutDataModule"
            )
        self._names = [f"{prefix}/{name}" for name in names]
        self._metrics = [SolvedProblems(self.k) for _ in names]
        for metric in self._metrics:
            if pl_module.device.type == "cuda":
                # NCCL gathers device tensors only.
                metric.to(pl_module.device)
            metric.update([])
        logger = find_run_logger(trainer)
        if logger is not None:
            fitting = trainer.state.fn == TrainerFn.FITTING
            logger.pinned_step = None if fitting else _evaluated_step(trainer)

    def _finish(self, pl_module: LightningModule) -> dict[str, float]:
        values = {
            f"{name}/{key}": value
            for name, metric in zip(self._names, self._metrics, strict=True)
            for key, value in metric.compute().items()
            if key != "problems"
        }
        log_step(pl_module, values)
        return values

    def _remember(self, values: Mapping[str, float], *, step: int) -> None:
        for name, value in values.items():
            if "/pass@" in name and value > self.best.get(name, (-1.0, 0))[0]:
                self.best[name] = (value, step)


def _evaluated_step(trainer: Trainer) -> int:
    return checkpoint_step(trainer.ckpt_path) if trainer.ckpt_path else trainer.current_epoch


def table(values: Mapping[str, float]) -> str:
    """Metrics as text: one line a set, one column a metric.

    >>> print(table({"val/a/pass@1": 0.25, "val/a/length/mean": 12.5, "val/b/pass@1": 1.0}))
    set    pass@1  length/mean
    val/a  0.2500      12.5000
    val/b  1.0000            -
    """
    sets: dict[str, dict[str, str]] = {}
    for name, value in values.items():
        prefix, set_name, metric = name.split("/", 2)
        sets.setdefault(f"{prefix}/{set_name}", {})[metric] = f"{value:.4f}"
    metrics = list(dict.fromkeys(metric for row in sets.values() for metric in row))
    first = max(len(name) for name in ("set", *sets))
    widths = {m: max(len(m), *(len(row.get(m, "-")) for row in sets.values())) for m in metrics}
    lines = ["  ".join(["set".ljust(first), *(m.rjust(widths[m]) for m in metrics)])]
    for name, row in sets.items():
        cells = (row.get(m, "-").rjust(widths[m]) for m in metrics)
        lines.append("  ".join([name.ljust(first), *cells]))
    return "\n".join(lines)

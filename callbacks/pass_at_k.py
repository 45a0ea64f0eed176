"""Pass@k on the validation sets, before, during and after training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities import rank_zero_warn

from callbacks.evaluation_files import EvaluationFiles, evaluation_files
from callbacks.evaluation_tables import missing_problems, table
from callbacks.solved_problems import SolvedProblems
from callbacks.step_rollouts import log_step
from gtpo_lit.evaluation import SetSummary, report_text
from gtpo_lit.run_folder import checkpoint_step
from gtpo_lit.run_logger import find_run_logger, log_row
from gtpo_lit.types import Graded


class PassAtK(Callback):
    """Logs `val/<set>/pass@k` and, of the same samples, all other figures of docs/evaluation.md.

    The estimate is `gtpo_lit.evaluation.pass_at_k`, averaged over problems, each of which counts
    once however many ranks evaluate it. With `Trainer(num_sanity_val_steps=-1)` Lightning's sanity
    check is a validation before training: it becomes row 0 of the metrics and is kept in the
    checkpoints, so that `before` is known after any number of resumes. Under `test` the names
    start with `test/`. Outside `fit` tables with 95 % intervals are printed, and they and all
    samples are written into `evaluation/` of the run folder.
    """

    def __init__(
        self, k: list[int] | None = None, draws: int = 2000, keep_samples: bool = True
    ) -> None:
        """Check the options.

        Args:
            k: the values of k; None is every power of two up to the samples drawn, and their
                number.
            draws: bootstrap draws for the intervals.
            keep_samples: write every sample of `validate` and `test` as parquet.

        Raises:
            ValueError: if a k is below 1, or there are no draws.
        """
        if k is not None and (not k or min(k) < 1):
            raise ValueError(f"k={k} needs values of at least 1")
        if draws < 1:
            raise ValueError(f"draws={draws} is below 1")
        self.k = k
        self.draws = draws
        self.keep_samples = keep_samples
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
        self._files: EvaluationFiles | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Check the values of k, before any weights load.

        Raises:
            ValueError: if no k has an estimate, since all are above the samples drawn.
        """
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by fit, not declared
        sets = getattr(data, "test_sets" if stage == "test" else "validation_sets", None)
        if self.k is None or sets is None or not sets.sources:
            return
        above = [k for k in self.k if k > sets.samples]
        if above:
            said = (
                f"PassAtK: k = {above} is above the {sets.samples} samples of each problem "
                "(data.validation_samples, data.test_samples), so there is no estimate"
            )
            if len(above) == len(self.k):
                raise ValueError(said)
            rank_zero_warn(said)

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
        self._add(batch, dataloader_idx)

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
        self._add(batch, dataloader_idx)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log, and within `fit` remember for the summary."""
        values = self._finish(trainer, pl_module)
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

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log and print."""
        self._finish(trainer, pl_module)

    def _start(self, trainer: Trainer, pl_module: LightningModule, *, prefix: str) -> None:
        names = _set_names(trainer, prefix)
        self._names = [f"{prefix}/{name}" for name in names]
        self._metrics = [SolvedProblems(self.k) for _ in names]
        fitting = trainer.state.fn == TrainerFn.FITTING
        logger = find_run_logger(trainer)
        if logger is not None:
            logger.pinned_step = None if fitting else _evaluated_step(trainer)
        self._files = (
            None
            if fitting
            else evaluation_files(trainer, pl_module, prefix, names, samples=self.keep_samples)
        )

    def _add(self, batch: list[Graded], dataloader_idx: int) -> None:
        self._metrics[dataloader_idx].update(batch)
        if self._files is not None:
            self._files.add(batch, dataloader_idx)

    def _finish(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, float]:
        draws = 0 if trainer.state.fn == TrainerFn.FITTING else self.draws
        summaries = {
            name: metric.summary(draws)
            for name, metric in zip(self._names, self._metrics, strict=True)
        }
        values = {
            f"{name}/{key}": value
            for name, summary in summaries.items()
            for key, value in summary.values.items()
        }
        log_step(pl_module, values)
        if draws:
            self._report(trainer, summaries, values)
        return values

    def _report(
        self, trainer: Trainer, summaries: Mapping[str, SetSummary], values: Mapping[str, float]
    ) -> None:
        missing = missing_problems(trainer, summaries)
        about = {
            "rl_step": _evaluated_step(trainer),
            "checkpoint": None if trainer.ckpt_path is None else str(trainer.ckpt_path),
            "bootstrap_draws": self.draws,
            "missing_problems": missing,
        }
        if self._files is not None:
            self._files.finish(summaries, about, first=trainer.is_global_zero)
        if not trainer.is_global_zero:
            return
        for name, summary in summaries.items():
            print(report_text(name, summary))
            if missing.get(name):
                print(f"  WARNING: {missing[name]} more problem(s) were not evaluated")
        print(table(values))
        if self._files is not None:
            print(f"Tables and samples: {self._files.folder}")

    def _remember(self, values: Mapping[str, float], *, step: int) -> None:
        for name, value in values.items():
            if "/pass@" in name and value > self.best.get(name, (-1.0, 0))[0]:
                self.best[name] = (value, step)


def _set_names(trainer: Trainer, prefix: str) -> list[str]:
    data = getattr(trainer, "datamodule", None)
    names = getattr(data, "validation_names", None)
    if names is None:
        raise ValueError(
            "PassAtK reads trainer.datamodule.validation_names; it needs a RolloutDataModule"
        )
    return list(getattr(data, "test_names", names) if prefix == "test" else names)


def _evaluated_step(trainer: Trainer) -> int:
    return checkpoint_step(trainer.ckpt_path) if trainer.ckpt_path else trainer.current_epoch

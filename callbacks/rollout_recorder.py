"""The rollouts of every Nth RL step, with their credit, as parquet files in the run folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.step_rollouts import step_rollouts
from gtpo_lit.recorded import RecordedStep, Sampled, record_step, sampled_rows, write_rollouts
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger
from gtpo_lit.types import Graded

_FILE = re.compile(r"step_(\d+)\.parquet")


class RolloutRecorder(Callback):
    """Writes `rollouts/step_000010.parquet` and so on: every sequence of all ranks, token by token.

    A row is a sequence: problem, group, prompt and response as text, ids and one piece of text a
    token, reward, penalty, masks, and for each token entropy, log-probs, shaped reward and
    advantage. `python -m callbacks.credit_viewer FILE` makes a page of it, `gtpo-lit credit`
    computes other algorithms' credit, and `gtpo_lit.recorded.read_rollouts` reads it;
    docs/credit_viewer.md lists the columns. Rank zero writes, and a file appears when it is whole.
    A run that is resumed in its folder drops the files after its checkpoint, as it does with rows
    of metrics.csv, so that no step is told twice. Without a run folder nothing is written.
    """

    def __init__(self, every_n_steps: int = 10) -> None:
        """Check the options.

        Args:
            every_n_steps: record the RL steps that this divides.

        Raises:
            ValueError: if it is below 1.
        """
        if every_n_steps < 1:
            raise ValueError(
                f"RolloutRecorder: every_n_steps must be at least 1, got {every_n_steps}"
            )
        self.every_n_steps = every_n_steps

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Drop what was recorded after the checkpoint that the run goes on from."""
        logger = find_run_logger(trainer)
        if logger is None or not trainer.is_global_zero:
            return
        for path, step in recorded_steps(logger.folder):
            if step > logger.folder.start_step:
                path.unlink()
                path.with_suffix(".html").unlink(missing_ok=True)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record the step if it is one of those wanted."""
        step = trainer.current_epoch + 1
        logger = find_run_logger(trainer)
        if logger is None or step % self.every_n_steps:
            return
        rollouts = step_rollouts(trainer, type(self).__name__)
        sampled = _of_all_ranks(sampled_rows(_graded(trainer)))
        if not trainer.is_global_zero:
            return
        module: Any = pl_module
        recorded = record_step(
            rollouts,
            sampled,
            step=step,
            algorithm=module.algorithm,
            decode=_decoder(module),
        )
        self.keep(recorded, rollout_file(logger.folder, step))

    def keep(self, recorded: RecordedStep, path: Path) -> None:
        """Write what is kept of a step; `path` is its parquet file, asked on rank zero."""
        write_rollouts(recorded, path)


def rollout_file(folder: RunFolder, step: int) -> Path:
    """Where the rollouts of an RL step are recorded."""
    return folder.rollouts / f"step_{step:06d}.parquet"


def recorded_steps(folder: RunFolder) -> list[tuple[Path, int]]:
    """The files of recorded rollouts with their RL steps, in the order of steps."""
    if not folder.rollouts.is_dir():
        return []
    found = [(entry, _FILE.fullmatch(entry.name)) for entry in folder.rollouts.iterdir()]
    steps = [(entry, int(match[1])) for entry, match in found if match]
    return sorted(steps, key=lambda item: item[1])


def _graded(trainer: Trainer) -> list[Graded]:
    graded = getattr(getattr(trainer, "datamodule", None), "graded", None)
    if not isinstance(graded, list):
        raise ValueError(
            f"RolloutRecorder reads trainer.datamodule.graded, which is {type(graded).__name__}; "
            "it needs a RolloutDataModule"
        )
    return graded


def _of_all_ranks(rows: list[Sampled]) -> list[Sampled]:
    """The rows of all ranks in rank order, as rollouts hold them."""
    if not (dist.is_available() and dist.is_initialized()):
        return rows
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, rows)
    return [row for part in gathered for row in part]


def _decoder(module: Any) -> Any:
    tokenizer = module.policy.tokenizer

    def decode(ids: list[int]) -> str:
        return str(
            tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        )

    return decode

"""What `validate` and `test` leave in the run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from gtpo_lit.evaluation import SampleFile, SetSummary, write_report
from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import find_run_logger
from gtpo_lit.types import Graded


class EvaluationFiles:
    """`evaluation/<val or test>.csv`, `.json`, and one parquet file of samples a set and rank.

    The samples of rank 3 for the set `a` under `test` are in
    `evaluation/test-samples/a-rank0003.parquet`; a rank without problems writes none.
    """

    def __init__(self, folder: Path, stage: str, sample_files: Sequence[SampleFile]) -> None:
        """Keep the paths; `evaluation_files` finds them.

        Args:
            folder: `evaluation/` of the run folder.
            stage: "val" or "test".
            sample_files: of this rank, one a set in the order of the loaders; or none.
        """
        self.folder = folder
        self.stage = stage
        self._sample_files = sample_files

    def add(self, batch: Sequence[Graded], dataloader_idx: int) -> None:
        """Write the samples of one batch."""
        if self._sample_files:
            self._sample_files[dataloader_idx].add(batch)

    def finish(
        self, summaries: Mapping[str, SetSummary], about: Mapping[str, Any], *, first: bool
    ) -> None:
        """Close this rank's samples, and write the tables on the first rank."""
        for file in self._sample_files:
            file.close()
        if first:
            write_report(self.folder, self.stage, summaries, about)


def evaluation_files(
    trainer: Trainer, pl_module: LightningModule, stage: str, names: Sequence[str], *, samples: bool
) -> EvaluationFiles | None:
    """Files in the trainer's run folder; None if it keeps none. All ranks have to ask."""
    if find_run_logger(trainer) is None:
        return None
    path = trainer.log_dir  # rank zero tells the others
    assert path is not None
    folder = RunFolder(path=Path(path)).evaluation
    tokenizer: Any = getattr(getattr(pl_module, "policy", None), "tokenizer", None)

    def decode(ids: list[int]) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=False))

    rank = f"rank{trainer.global_rank:04d}"
    files = [
        SampleFile(
            folder / f"{stage}-samples" / f"{name}-{rank}.parquet",
            decode=None if tokenizer is None else decode,
        )
        for name in names
    ]
    return EvaluationFiles(folder, stage, files if samples else [])

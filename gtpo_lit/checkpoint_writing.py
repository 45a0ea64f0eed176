"""One checkpoint, written whole by all ranks or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lightning.pytorch import Trainer
from torch.distributed.checkpoint.api import CheckpointException

from gtpo_lit.durable import move_into_place, remove
from gtpo_lit.rollout.exchange import all_gather

PARTIAL = ".partial"
"""Ends the name of whatever is not whole yet."""


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, as on a full disk; those before it are whole."""


def write_checkpoint(trainer: Trainer, path: Path, *, weights_only: bool, last: str) -> None:
    """Write a file or a folder under another name, then rename it. A collective.

    Args:
        trainer: whose state is written.
        path: name of the checkpoint once it is whole.
        weights_only: leave out what resuming needs.
        last: the newest checkpoint before this one, for the error message.

    Raises:
        CheckpointError: on every rank, if any rank could not write; no part is left.
    """
    partial = path.with_name(path.name + PARTIAL)
    if trainer.is_global_zero:
        remove(partial)
    trainer.strategy.barrier("write_checkpoint")
    # The trainer's own method waits for all ranks in the end, where one that failed never comes.
    content = trainer._checkpoint_connector.dump_checkpoint(weights_only)
    _raise_together(_try(lambda: trainer.strategy.save_checkpoint(content, partial)), path, last)
    moved = None
    if trainer.is_global_zero:
        moved = _try(lambda: move_into_place(partial, path))
    _raise_together(moved, path, last)


def remove_partials(folder: Path) -> None:
    """Remove what a process that was stopped in the middle of a write has left."""
    for entry in folder.glob(f"*{PARTIAL}"):
        remove(entry)


def _try(write: Callable[[], object]) -> str | None:
    """What went wrong, as text."""
    try:
        write()
    except (Exception, CheckpointException) as error:
        # A state that cannot be pickled may raise anything, too, and the other ranks wait.
        return f"{type(error).__name__}: {error}"
    return None


def _raise_together(fault: str | None, path: Path, last: str) -> None:
    faults = [(rank, one) for rank, one in enumerate(all_gather(fault)) if one is not None]
    if not faults:
        return
    remove(path.with_name(path.name + PARTIAL))
    rank, text = faults[0]
    raise CheckpointError(
        f"checkpoint {path} could not be written (rank {rank}): {text}. No part of it is left; "
        f"last complete checkpoint: {last}"
    )

"""Checkpoint files written straight to where they belong."""

from __future__ import annotations

import os
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import Trainer


class StraightCheckpointIO(TorchCheckpointIO):
    """Writes into the file that is asked for, and not a byte elsewhere.

    Lightning's own makes a copy of the whole checkpoint in memory and another one in the system's
    folder of temporary files, which a kill leaves there and which may be smaller than the
    checkpoint. `RunCheckpoint` sees to it that no part takes a checkpoint's name.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Write the file.

        Raises:
            OSError: it cannot be written, as on a full disk.
            TypeError: for `storage_options`.
        """
        if storage_options is not None:
            raise TypeError(f"storage_options={storage_options!r} is not supported")
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            try:
                torch.save(checkpoint, file)
            except RuntimeError as error:
                # The writer's own complaint, about positions in the file, hides the system's.
                cause = error.__context__
                if isinstance(cause, OSError):
                    raise cause from None
                raise


def write_straight(trainer: Trainer) -> None:
    """Give the trainer's strategy this way to write, unless another one was chosen."""
    strategy = trainer.strategy
    # A sharded strategy writes by itself, and some refuse even the question.
    if type(getattr(strategy, "_checkpoint_io", None)) in (type(None), TorchCheckpointIO):
        strategy._checkpoint_io = StraightCheckpointIO()

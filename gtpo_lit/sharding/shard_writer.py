"""Shards whose writer says what the system said."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter


class ShardWriter(FileSystemWriter):
    """Raises the system's own error, as on a full disk.

    torch's writer hides it behind a complaint about positions in the file, and only one error is
    sent to the other ranks.
    """

    def write_data(self, *arguments: Any) -> Any:
        """Write what the plan gives to this rank.

        Raises:
            OSError: it cannot be written.
        """
        try:
            return super().write_data(*arguments)
        except RuntimeError as error:
            cause = error.__context__
            if isinstance(cause, OSError):
                raise cause from None
            raise


@contextlib.contextmanager
def shards_written_to(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let `torch.distributed.checkpoint.save` write by `ShardWriter`.

    Raises:
        OSError: a rank cannot write; on all ranks, in one line that names it.
    """
    # Lightning looks the function up at the call.
    room: Any = torch.distributed.checkpoint
    plain = room.save
    room.save = partial(plain, storage_writer=ShardWriter(Path(path)))
    try:
        yield
    except CheckpointException as error:
        raise OSError(one_line(error)) from error
    finally:
        room.save = plain


def one_line(error: CheckpointException) -> str:
    """What went wrong on which ranks, without their tracebacks.

    >>> one_line(CheckpointException("write", {1: (OSError(27, "File too large"), None)}))
    'rank 1: OSError: [Errno 27] File too large'
    """
    found = ((rank, pair[0]) for rank, pair in sorted(error.failures.items()))
    return "; ".join(f"rank {rank}: {type(one).__name__}: {one}" for rank, one in found)

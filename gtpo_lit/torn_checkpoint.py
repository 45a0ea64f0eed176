"""Whether a checkpoint on disk is whole, told without reading its tensors."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

META = "meta.pt"
"""In a sharded checkpoint, all that is no tensor."""


def why_torn(path: str | os.PathLike[str]) -> str | None:
    """What is missing from a checkpoint, in a few words; None if it is complete.

    Args:
        path: a file, or the folder of a sharded checkpoint.
    """
    path = Path(path)
    if path.is_dir():
        return _why_folder_torn(path)
    if not path.is_file():
        return "is not there"
    return _why_file_torn(path)


def _why_file_torn(path: Path) -> str | None:
    # The index of what torch saves stands at the end of the file.
    if path.stat().st_size == 0:
        return "is empty"
    return None if zipfile.is_zipfile(path) else "is cut short, or no checkpoint"


def _why_folder_torn(path: Path) -> str | None:
    if not (path / META).is_file():
        return f"lacks {META}"
    if (reason := _why_file_torn(path / META)) is not None:
        return f"holds a {META} that {reason}"
    try:
        needed = _lengths(path)
    except FileNotFoundError:
        return "lacks .metadata"
    except (EOFError, pickle.UnpicklingError):
        return "holds a .metadata that is cut short"
    for name, length in sorted(needed.items()):
        part = path / name
        if not part.is_file() or part.stat().st_size < length:
            return f"lacks {name}, or some of it"
    return None


def _lengths(path: Path) -> dict[str, int]:
    """The least size of every file of tensors, in bytes."""
    from torch.distributed.checkpoint.filesystem import FileSystemReader

    stored: Any = FileSystemReader(path).read_metadata().storage_data
    lengths: dict[str, int] = {}
    for place in (stored or {}).values():
        end = place.offset + place.length
        lengths[place.relative_path] = max(lengths.get(place.relative_path, 0), end)
    return lengths

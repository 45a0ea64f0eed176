"""Whether a checkpoint on disk is whole, told without reading its tensors."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

META = "meta.pt"
"""In a sharded checkpoint, all that is no tensor."""
_LOCAL_HEADER = b"PK\x03\x04"


def why_torn(path: str | os.PathLike[str]) -> str | None:
    """What is missing from a checkpoint, in a few words; None if it is whole.

    A file is whole if its index (which stands at its end) and its pickle can be read and every
    tensor begins where the index says; a folder, if all that its metadata lists is there in full
    length. Reads some hundred kilobytes, whatever the size.

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
    if path.stat().st_size == 0:
        return "is empty"
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for entry in archive.infolist():
                file.seek(entry.header_offset)
                if file.read(4) != _LOCAL_HEADER:
                    return "has holes"
                if entry.filename.endswith("/data.pkl"):
                    archive.read(entry)  # compares a checksum
    except (zipfile.BadZipFile, EOFError):
        return "is cut short, or no checkpoint"
    return None


def _why_folder_torn(path: Path) -> str | None:
    if not (path / META).is_file():
        return f"lacks {META}"
    if (reason := _why_file_torn(path / META)) is not None:
        return f"holds a {META} that {reason}"
    try:
        needed = _lengths(path)
    except FileNotFoundError:
        return "lacks .metadata"
    except (EOFError, pickle.UnpicklingError, AttributeError, IndexError, KeyError, ValueError):
        return "holds a .metadata that is cut short"
    for name, length in sorted(needed.items()):
        part = path / name
        if not part.is_file():
            return f"lacks {name}"
        if part.stat().st_size < length:
            return f"holds a {name} that is cut short"
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

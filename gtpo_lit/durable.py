"""Files and folders that have reached the disk, whenever the machine stops."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def sync(path: str | os.PathLike[str]) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def move_into_place(partial: Path, final: Path) -> None:
    """Give a finished file or folder its name, in place of what has that name.

    Contents, then the folder that lists them, then the new name reach the disk: whenever the
    machine stops, what is called `final` is whole.

    Raises:
        OSError: something cannot be written.
    """
    inside = sorted(partial.rglob("*")) if partial.is_dir() else []
    for path in (*inside, partial):
        sync(path)
    if final.is_dir() or (final.exists() and partial.is_dir()):
        # Only files are replaced in one go; the name is gone before the old content is.
        old = final.with_name(f"{final.name}.old.partial")
        remove(old)
        os.replace(final, old)
        os.replace(partial, final)
        sync(final.parent)
        remove(old)
        return
    os.replace(partial, final)
    sync(final.parent)


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it; nothing if there is none."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

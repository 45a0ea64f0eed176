"""Who may write into a run folder: new versions, resumes in place, and locks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import IO, Any

from gtpo_lit.metrics_csv import read_rows, write_rows
from gtpo_lit.run_folder import RunFolder, checkpoint_step, version_of

try:
    import fcntl
except ImportError:  # only POSIX has it; elsewhere two resumed processes are not told apart
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
_LOCKS: list[IO[Any]] = []


def claim(
    root: str | os.PathLike[str],
    name: str,
    ckpt_path: str | os.PathLike[str] | None = None,
    *,
    version: int | None = None,
) -> RunFolder:
    """Take a run folder for this process alone; nothing that exists is written over.

    Without `ckpt_path` this is a new version. With it, the run goes on in place if the checkpoint
    is the newest of a run that is neither finished nor still being written by another process:
    `metrics.csv` and `timing.csv` are cut back to the checkpoint's RL step. Any other checkpoint
    (older, of a finished run, outside a run folder) begins a new version, and its `metrics.csv`
    starts with a copy of the origin's rows up to that step, if there are any.

    Args:
        root: folder of all runs.
        name: the run's name, one path component.
        ckpt_path: checkpoint that training resumes from.
        version: number of the new version; the first unused one after all others if None.

    Raises:
        ValueError: if an option makes no sense, the checkpoint does not exist, or the version
            that was asked for does.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise ValueError(f"name={name!r} is not the name of a folder")
    if ckpt_path is None:
        return _new_version(Path(root) / name, version, start_step=0)
    checkpoint = Path(ckpt_path)
    if not checkpoint.exists():
        raise ValueError(f"ckpt_path={str(ckpt_path)!r} does not exist")
    step = checkpoint_step(checkpoint)
    origin = _origin(checkpoint)
    if origin is not None and version in (None, version_of(origin.path)):
        resumed = _continue(origin, checkpoint, step)
        if resumed is not None:
            return resumed
    folder = _new_version(Path(root) / name, version, start_step=step)
    if origin is not None:
        write_rows(folder.metrics, _rows_up_to(origin.metrics, step))
    return folder


def abandon(folder: RunFolder) -> None:
    """Give a new run folder back if no config or number has been written into it."""
    # TensorBoard's writer leaves an event file as soon as it is made.
    empty = {LOCK, "tensorboard"}
    if folder.in_place or any(entry.name not in empty for entry in folder.path.iterdir()):
        return
    (folder.path / LOCK).unlink(missing_ok=True)
    shutil.rmtree(folder.path / "tensorboard", ignore_errors=True)
    for path in (folder.path, folder.path.parent, folder.path.parent.parent):
        try:
            path.rmdir()
        except OSError:  # there is more in it, or it is a link, a mount or the working folder
            return


def _origin(checkpoint: Path) -> RunFolder | None:
    """The run folder that a checkpoint lies in."""
    folder = RunFolder(path=checkpoint.resolve().parent.parent)
    inside = checkpoint.resolve().parent.name == "checkpoints" and folder.metrics.is_file()
    return folder if inside else None


def _continue(origin: RunFolder, checkpoint: Path, step: int) -> RunFolder | None:
    newest = origin.newest_checkpoint()
    if newest is None or newest.resolve() != checkpoint.resolve() or origin.finished:
        return None
    if not _lock(origin.path):
        return None
    for path in (origin.metrics, origin.timing):
        if path.is_file():
            write_rows(path, _rows_up_to(path, step))
    return RunFolder(path=origin.path, start_step=step, in_place=True)


def _new_version(parent: Path, version: int | None, *, start_step: int) -> RunFolder:
    for folder in (*reversed(parent.parents), parent):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"run folder {str(parent)!r}: {str(folder)!r} is not a folder")
    parent.mkdir(parents=True, exist_ok=True)
    used = [version_of(entry) for entry in parent.iterdir()]
    number = version if version is not None else max((n for n in used if n is not None), default=-1)
    number += version is None
    while True:
        path = parent / f"version_{number}"
        try:
            # Of two processes that start at once, only one can make the folder.
            path.mkdir()
        except FileExistsError:
            if version is not None:
                raise ValueError(f"version={version}: {str(path)!r} already exists") from None
            number += 1
        else:
            _lock(path)
            return RunFolder(path=path, start_step=start_step)


def _lock(path: Path) -> bool:
    """Hold a lock until this process ends, however it ends; False if another process has it.

    The lock is a POSIX record lock: forked children do not inherit it, so that a worker which
    outlives a killed run does not keep the folder.
    """
    if fcntl is None:
        return True
    file = (path / LOCK).open("a")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
    # Closing any handle of the file would give the lock up.
    _LOCKS.append(file)
    return True


def _rows_up_to(path: Path, step: int) -> dict[int, dict[str, str]]:
    return {number: row for number, row in read_rows(path).items() if number <= step}

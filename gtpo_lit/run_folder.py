"""The folder of one run: its layout, and the rules of who may write into it.

``<root>/<name>/version_N/`` holds ``config.yaml``, ``metrics.csv``, ``timing.csv``,
``checkpoints/step=NNNN.ckpt``, ``rollouts/``, ``tensorboard/``, ``curves.png`` and
``summary.json``. Steps are RL steps; row and checkpoint k describe the state after k of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gtpo_lit.metrics_csv import read_metrics, read_rows, write_atomically, write_rows

try:
    import fcntl
except ImportError:  # only POSIX has it; elsewhere two resumed processes are not told apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunFolder", "checkpoint_step", "claim", "last_checkpoint", "read_metrics"]

_CHECKPOINT = re.compile(r"step=(\d+)\.ckpt")
_VERSION = re.compile(r"version_(\d+)")
LOCK = ".lock"
_LOCKS: list[IO[Any]] = []


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """Paths of one run, and how far it had come when this process took it over."""

    path: Path
    start_step: int = 0
    """RL steps completed before this process started; 0 for a fresh run."""
    in_place: bool = False
    """Whether this process goes on with a folder that an earlier one began."""

    @property
    def config(self) -> Path:
        """The resolved options of the run."""
        return self.path / "config.yaml"

    @property
    def metrics(self) -> Path:
        """One row an RL step, reproducible to the last digit."""
        return self.path / "metrics.csv"

    @property
    def timing(self) -> Path:
        """Seconds and bytes, which differ from run to run."""
        return self.path / "timing.csv"

    @property
    def checkpoints(self) -> Path:
        """Where `step=NNNN.ckpt` lie."""
        return self.path / "checkpoints"

    @property
    def rollouts(self) -> Path:
        """Where sampled completions are kept."""
        return self.path / "rollouts"

    @property
    def curves(self) -> Path:
        """The picture drawn at the end."""
        return self.path / "curves.png"

    @property
    def summary(self) -> Path:
        """Results of the run as JSON."""
        return self.path / "summary.json"

    @property
    def finished(self) -> bool:
        """Whether the run says of itself that it reached its last RL step."""
        return bool(self.read_summary().get("finished", False))

    def read_summary(self) -> dict[str, Any]:
        """The content of `summary.json`; empty if there is none, or it is not an object."""
        if not self.summary.is_file():
            return {}
        try:
            content = json.loads(self.summary.read_text(encoding="utf-8"))
        except json.JSONDecodeError:  # not written by us: we replace the file as a whole
            return {}
        return content if isinstance(content, dict) else {}

    def write_summary(self, content: dict[str, Any]) -> None:
        """Replace `summary.json` as a whole."""
        write_atomically(self.summary, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def checkpoint(self, step: int) -> Path:
        """The path of the checkpoint after `step` RL steps."""
        return self.checkpoints / f"step={step:04d}.ckpt"

    def checkpoint_steps(self) -> list[int]:
        """The RL steps of all complete checkpoints, in increasing order."""
        if not self.checkpoints.is_dir():
            return []
        found = (_CHECKPOINT.fullmatch(entry.name) for entry in self.checkpoints.iterdir())
        return sorted(int(match[1]) for match in found if match)

    def newest_checkpoint(self) -> Path | None:
        """The checkpoint with the most RL steps, None if there is none."""
        steps = self.checkpoint_steps()
        return self.checkpoint(steps[-1]) if steps else None


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
    if origin is not None and version in (None, _number(origin.path)):
        resumed = _continue(origin, checkpoint, step)
        if resumed is not None:
            return resumed
    folder = _new_version(Path(root) / name, version, start_step=step)
    if origin is not None:
        write_rows(folder.metrics, _rows_up_to(origin.metrics, step))
    return folder


def last_checkpoint(root: str | os.PathLike[str], name: str) -> Path | None:
    """The newest checkpoint of the newest version that has one, None if there is none."""
    parent = Path(root) / name
    folders = {_number(entry): entry for entry in parent.glob("version_*")}
    for number in sorted((n for n in folders if n is not None), reverse=True):
        newest = RunFolder(path=folders[number]).newest_checkpoint()
        if newest is not None:
            return newest
    return None


def abandon(folder: RunFolder) -> None:
    """Give a new run folder back if no config or number has been written into it."""
    # TensorBoard's writer leaves an event file as soon as it is made.
    empty = {LOCK, "tensorboard"}
    if folder.in_place or any(entry.name not in empty for entry in folder.path.iterdir()):
        return
    (folder.path / LOCK).unlink(missing_ok=True)
    shutil.rmtree(folder.path / "tensorboard", ignore_errors=True)
    for path in (folder.path, folder.path.parent, folder.path.parent.parent):
        if any(path.iterdir()):
            return
        path.rmdir()


def checkpoint_step(path: str | os.PathLike[str]) -> int:
    """How many RL steps were completed when a checkpoint was written.

    The name `step=NNNN.ckpt` tells; under any other name the file is read.

    Raises:
        ValueError: if the file does not say.
    """
    path = Path(path)
    match = _CHECKPOINT.fullmatch(path.resolve().name)
    if match:
        return int(match[1])
    import torch

    file = path / "meta.pt" if path.is_dir() else path
    content = torch.load(file, map_location="cpu", mmap=True, weights_only=True)
    if "rl_step" in content:
        return int(content["rl_step"])
    if "epoch" in content:
        return int(content["epoch"]) + 1
    raise ValueError(f"ckpt_path={str(path)!r} holds neither 'rl_step' nor 'epoch'")


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
    used = [_number(entry) for entry in parent.iterdir()]
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


def _number(folder: Path) -> int | None:
    match = _VERSION.fullmatch(folder.name)
    return int(match[1]) if match else None

"""A run's folder: where it lies, whose it is, and what a resume keeps of it."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

CHECKPOINT = re.compile(r"step=(\d+)\.ckpt")
TABLES = ("metrics.csv", "timing.csv")


class RunFolderError(ValueError):
    """A run folder that cannot be read, with what is wrong."""


@dataclass(frozen=True)
class RunFolder:
    """``<root>/<name>/version_<N>``: config, tables, checkpoints and plots of a run."""

    path: Path

    @classmethod
    def claim(cls, root: Path, name: str) -> RunFolder:
        """A new version that no other process has; nothing is ever written over."""
        parent = root / name
        parent.mkdir(parents=True, exist_ok=True)
        number = 1 + max((run.version for run in versions(root, name)), default=-1)
        while True:
            path = parent / f"version_{number}"
            try:
                path.mkdir()
                return cls(path)
            except FileExistsError:
                number += 1

    @classmethod
    def resume(cls, root: Path, name: str, checkpoint: Path) -> RunFolder:
        """The folder in which a run goes on from `checkpoint`.

        An unfinished run goes on in its own folder from its newest checkpoint; its tables are cut
        back to that checkpoint's RL step. From any other checkpoint, a new version begins with a
        copy of the rows up to that step.
        """
        step = checkpoint_step(checkpoint)
        origin = cls(checkpoint.resolve().parent.parent)
        in_place = (
            step is not None
            and origin.path.parent.resolve() == (root / name).resolve()
            and not origin.finished
            and origin.newest_checkpoint() == checkpoint.resolve()
        )
        target = origin if in_place else cls.claim(root, name)
        if step is not None:
            for table in TABLES:
                if (origin.path / table).is_file():
                    copy_rows(origin.path / table, target.path / table, last_step=step)
        return target

    @property
    def version(self) -> int:
        """N of version_N."""
        return int(self.path.name.removeprefix("version_"))

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        summary = self.path / "summary.json"
        try:
            return bool(json.loads(summary.read_text(encoding="utf-8")).get("finished"))
        except (OSError, json.JSONDecodeError):
            return False

    def newest_checkpoint(self) -> Path | None:
        """The checkpoint with the most RL steps, if there is any."""
        found = {
            step: path
            for path in (self.path / "checkpoints").glob("step=*.ckpt")
            if (step := checkpoint_step(path)) is not None
        }
        return found[max(found)].resolve() if found else None


def versions(root: Path, name: str) -> list[RunFolder]:
    """All versions of a run, oldest first."""
    found = [
        RunFolder(path)
        for path in (root / name).glob("version_*")
        if path.is_dir() and path.name.removeprefix("version_").isdigit()
    ]
    return sorted(found, key=lambda run: run.version)


def last_checkpoint(root: Path, name: str) -> Path | None:
    """The newest checkpoint of the newest version that has one."""
    for run in reversed(versions(root, name)):
        if (checkpoint := run.newest_checkpoint()) is not None:
            return checkpoint
    return None


def checkpoint_step(checkpoint: Path) -> int | None:
    """Completed RL steps, by the checkpoint's file name ``step=N.ckpt``."""
    match = CHECKPOINT.fullmatch(checkpoint.name)
    return int(match.group(1)) if match else None


def copy_rows(source: Path, target: Path, *, last_step: int) -> None:
    """Write the rows of a table up to an RL step; a torn last line is left out."""
    header, rows = read_table(source)
    kept = [row for row in rows if int(row["step"]) <= last_step]
    write_table(target, header, kept)


def read_table(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of a table, as text; a torn last line is left out.

    Raises:
        RunFolderError: if the file is missing, empty, or not a table of RL steps.
    """
    if not path.is_file():
        raise RunFolderError(f"{path} does not exist: not a run folder, or nothing logged yet")
    text = path.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    rows = list(csv.reader(complete.splitlines()))
    if not rows:
        raise RunFolderError(f"{path} is empty: the run stopped before its first RL step")
    header = rows[0]
    if header[0] != "step":
        raise RunFolderError(f"{path} does not begin with a column 'step', but {header[0]!r}")
    return header, [
        dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header)
    ]


def write_table(path: Path, header: list[str], rows: list[dict[str, str]]) -> None:
    """Write a whole table at once: readers see the old one or the new one."""
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_metrics(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The curves of a run: for each metric, its (RL step, value) pairs.

    Raises:
        RunFolderError: if there is no table to read.
    """
    _, rows = read_table(Path(folder) / "metrics.csv")
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        for name, value in row.items():
            if name != "step" and value != "":
                curves.setdefault(name, []).append((int(row["step"]), float(value)))
    return curves

"""Recorded steps as parquet files, one row a sequence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from gtpo_lit.recorded.columns import ABOUT, FORMAT_VERSION, about_of, step_of, table_of
from gtpo_lit.recorded.recorded_step import RecordedStep

__all__ = ["FORMAT_VERSION", "read_rollouts", "write_rollouts"]


def write_rollouts(step: RecordedStep, path: str | os.PathLike[str]) -> None:
    """Write a step; the file appears when it is whole, and replaces one of that name.

    `docs/credit_viewer.md` lists the columns. What holds for all rows (step, temperature,
    algorithm, its settings, the format's version) is JSON in the file's key-value metadata.
    """
    import pyarrow.parquet

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    table = table_of(step).replace_schema_metadata({ABOUT: json.dumps(about_of(step), default=str)})
    with partial.open("wb") as file:
        pyarrow.parquet.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(target)


def read_rollouts(path: str | os.PathLike[str]) -> RecordedStep:
    """Read a step back: every number as it was, to the bit, and padded to its longest row.

    Raises:
        FileNotFoundError: if there is no such file; a folder's recorded steps are listed.
        ValueError: if it is empty, cut short, of another format or version, or lacks a column.
    """
    path = Path(path)
    _check_path(path)
    table = _read_table(path)
    about = _read_about(path, (table.schema.metadata or {}).get(ABOUT.encode()))
    if table.num_rows == 0:
        raise ValueError(f"{path} holds no sequence")
    return step_of(table, about, str(path))


def _check_path(path: Path) -> None:
    if path.is_dir():
        found = sorted(entry.name for entry in path.rglob("step_*.parquet"))
        listed = f"name one of {', '.join(found)}" if found else "it holds no step_*.parquet"
        raise FileNotFoundError(f"{path} is a folder, not a file of recorded rollouts; {listed}")
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: there are no recorded rollouts")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty (0 bytes)")


def _read_table(path: Path) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(path, partitioning=None)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"{path} is not a whole parquet file; was it cut short? ({reason})"
        ) from None


def _read_about(path: Path, text: bytes | None) -> dict[str, Any]:
    if text is None:
        raise ValueError(f"{path} is parquet, but no file of recorded rollouts (no {ABOUT} entry)")
    try:
        about = json.loads(text)
        version = about["format_version"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: its {ABOUT} entry names no format_version") from None
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {version!r}; this gtpo_lit reads version {FORMAT_VERSION}"
        )
    return dict(about)

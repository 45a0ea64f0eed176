"""A run folder read for looking at: whatever is there, and notes about what is not."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtpo_lit.metrics_csv import STEP, read_rows
from gtpo_lit.run_folder import RunFolder, version_of

Table = dict[str, list[float]]

EXPECTED = (
    "train/reward/mean",
    "train/entropy/mean",
    "train/entropy/correct",
    "train/entropy/wrong",
    "train/length/mean",
)
"""Columns that every run of this version can have; an older run, or one that left its monitors
out, lacks some."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What a run folder holds."""

    folder: RunFolder
    columns: Table
    """`metrics.csv`: column -> one number a row, `step` first, NaN for an empty cell. Without any
    readable row there is an empty `step` alone, which `gtpo_lit.plots` draws as "not logged"."""
    timing: Table
    """`timing.csv`, likewise."""
    summary: dict[str, Any]
    """`summary.json`; empty before the run has ended."""
    notes: list[str] = field(default_factory=list)
    """What is missing or broken, in whole sentences; empty for a finished run."""


def read_run(path: str | os.PathLike[str]) -> RunRecord:
    """Read a run folder, as far as it can be read.

    Never stops at a file that is missing, empty, cut short or of another version: what can be read
    is returned, and `notes` say the rest.

    Args:
        path: `<root>/<name>/version_N`.

    Raises:
        FileNotFoundError: if there is no such folder, or it holds versions of a run instead of
            one, naming them.
    """
    folder = RunFolder(path=Path(path))
    if not folder.path.is_dir():
        raise FileNotFoundError(f"{folder.path} is not a folder; a run is in runs/NAME/version_N")
    versions = sorted(
        entry.name for entry in folder.path.iterdir() if version_of(entry) is not None
    )
    if versions and not folder.metrics.exists():
        raise FileNotFoundError(f"{folder.path} holds {', '.join(versions)}: give one of them")
    notes: list[str] = []
    columns = _table(folder.metrics, notes, wanted="nothing was logged, or the run has just begun")
    timing = _table(folder.timing, notes, wanted="no times are known")
    lacking = [name for name in EXPECTED if name not in columns]
    if columns[STEP] and lacking:
        notes.append(
            f"{folder.metrics.name} has no {', '.join(lacking)}: the run is of an older version, "
            "or ran without the callback that logs it."
        )
    summary = folder.read_summary()
    if not summary:
        state = "is not readable" if folder.summary.is_file() else "is not there"
        notes.append(f"summary.json {state}: the run goes on, was stopped, or failed.")
    elif not summary.get("finished", False):
        notes.append("The run ended before its last RL step.")
    return RunRecord(folder=folder, columns=columns, timing=timing, summary=summary, notes=notes)


def _table(path: Path, notes: list[str], *, wanted: str) -> Table:
    if not path.is_file() or not path.stat().st_size:
        notes.append(f"{path.name} is {'empty' if path.is_file() else 'not there'}: {wanted}.")
        return {STEP: []}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = read_rows(path, lenient=True)
        except ValueError as error:
            notes.append(f"{path.name} was not written by this version: {error}.")
            return {STEP: []}
    notes += [f"{one.message}." for one in caught]
    if not rows:
        notes.append(f"{path.name} has no complete row yet: {wanted}.")
    table: Table = {STEP: [float(step) for step in rows]}
    for name in sorted({name for row in rows.values() for name in row}):
        table[name] = [_number(row.get(name, "nan")) for row in rows.values()]
    return table


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan

"""Columns to draw, out of a folder in whatever state it is."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from gtpo_lit.metrics_csv import read_metrics
from gtpo_lit.plots.curves import Columns
from gtpo_lit.run_record import read_run

Run = str | os.PathLike[str] | Columns
"""A run folder, or columns as `read_metrics` returns them."""


def columns_of(run: Run) -> Columns:
    """The columns of a run; lines that cannot be read are left out with a warning.

    Raises:
        FileNotFoundError: if the folder has no metrics.
        ValueError: if the metrics have no readable row.
    """
    if isinstance(run, Mapping):
        return run
    path = Path(run)
    if path.is_dir() and (path / "metrics.csv").is_file():
        record = read_run(path)
        if record.columns["step"]:
            for note in record.notes:
                if "left out" in note:
                    warnings.warn(note, stacklevel=3)
            return record.columns
    return read_metrics(path)


def readable(runs: Iterable[Run]) -> list[Columns]:
    """The columns of the runs that have any; the others are left out with a warning.

    Raises:
        FileNotFoundError: if no run can be read, as `columns_of` says of the first.
        ValueError: likewise.
    """
    found: list[Columns] = []
    errors: list[FileNotFoundError | ValueError] = []
    for run in runs:
        try:
            found.append(columns_of(run))
        except (FileNotFoundError, ValueError) as error:
            errors.append(error)
    if errors and not found:
        raise errors[0]
    for left_out in errors:
        warnings.warn(f"a run is left out: {left_out}", stacklevel=3)
    return found

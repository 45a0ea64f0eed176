"""A CSV with one row for each RL step, that survives a kill at any moment.

The first column is `step`, the others follow in alphabetical order, and numbers are written with
`repr`. The bytes are therefore a function of the values alone: not of the order in which they
were logged, nor of how often the run was stopped and resumed.
"""

from __future__ import annotations

import csv
import io
import numbers
import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from gtpo_lit.durable import sync

STEP = "step"
Rows = dict[int, dict[str, str]]


class MetricsFile:
    """The rows of one such CSV, kept equal to the file at every change.

    A new row is appended; a change of an old row, or a new column, rewrites the file through a
    temporary one. Either way the data has reached the disk when `update` returns.
    """

    def __init__(self, path: Path) -> None:
        """Open the file and take over its rows; a torn last line is dropped from it."""
        self.path = path
        self.rows = read_rows(path) if path.exists() else {}
        self._columns = _columns(self.rows)
        if path.exists():
            write_rows(path, self.rows)

    def update(self, step: int, values: Mapping[str, float]) -> None:
        """Merge `values` into the row of `step`. Repeating a call changes nothing."""
        new = {name: _text(value) for name, value in values.items()}
        old = self.rows.get(step)
        if not new or (old is not None and all(old.get(name) == new[name] for name in new)):
            return
        in_order = old is None and step > max(self.rows, default=-1)
        self.rows.setdefault(step, {}).update(new)
        if in_order and self.rows and set(new) <= set(self._columns) and self.path.exists():
            self._append(step)
        else:
            self._columns = _columns(self.rows)
            write_rows(self.path, self.rows)

    def _append(self, step: int) -> None:
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line(step, self.rows[step], self._columns))
            file.flush()
            os.fsync(file.fileno())


def read_rows(path: Path, *, lenient: bool = False) -> Rows:
    """The cells of a metrics CSV as text, by step; empty cells are left out.

    A last line without line end was cut by a kill: it is dropped with a warning.

    Args:
        path: the file.
        lenient: drop other broken lines with a warning, too, so as to see what there is.

    Raises:
        ValueError: if the file is not such a CSV, with the line at fault.
    """
    text = path.read_bytes().decode("utf-8", errors="replace")
    complete, _, torn = text.rpartition("\n")
    if torn:
        warnings.warn(f"{path}: the last line was cut short and is left out", stacklevel=2)
    lines = list(csv.reader(io.StringIO(complete))) if complete else []
    if not lines:
        return {}
    header = lines[0]
    if header[:1] != [STEP]:
        raise ValueError(f"{path}: the first column is {header[:1]}, not {STEP!r}")
    rows: Rows = {}
    for number, cells in enumerate(lines[1:], start=2):
        if len(cells) != len(header) or not cells[0].isdecimal():
            fault = (
                f"{path}, line {number}: {len(cells)} cells for {len(header)} columns, "
                f"step {cells[0] if cells else ''!r}"
            )
            if not lenient:
                raise ValueError(fault)
            warnings.warn(f"{fault}; the line is left out", stacklevel=2)
            continue
        named = zip(header[1:], cells[1:], strict=True)
        rows[int(cells[0])] = {name: cell for name, cell in named if cell}
    return rows


def read_metrics(folder: str | os.PathLike[str]) -> dict[str, list[float]]:
    """The columns of a run's `metrics.csv`, in file order, `step` first.

    Args:
        folder: a run folder, or the path of a CSV itself.

    Returns:
        Column name -> one value a row. `step` holds ints, all else floats; NaN where the run
        logged nothing. `pandas.DataFrame(read_metrics(folder))` is a table.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it has no complete row or is not a metrics CSV.
    """
    path = Path(folder)
    path = path if path.suffix == ".csv" else path / "metrics.csv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: {path.parent} is not a run folder")
    rows = read_rows(path)
    if not rows:
        raise ValueError(f"{path} has no complete row yet")
    table: dict[str, list[float]] = {STEP: list(rows)}
    for name in _columns(rows):
        table[name] = [_number(path, name, row.get(name, "nan")) for row in rows.values()]
    return table


def write_rows(path: Path, rows: Rows) -> None:
    """Replace the file by these rows, sorted by step; columns without a value vanish."""
    columns = _columns(rows)
    if not rows:
        write_atomically(path, "")
        return
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow([STEP, *columns])
    body = "".join(_line(step, rows[step], columns) for step in sorted(rows))
    write_atomically(path, header.getvalue() + body)


def write_atomically(path: Path, text: str) -> None:
    """Put `text` at `path` such that a kill leaves the old or the new file, never a part."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    sync(path.parent)


def _columns(rows: Rows) -> list[str]:
    return sorted({name for row in rows.values() for name in row})


def _line(step: int, row: Mapping[str, str], columns: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow([step, *(row.get(name, "") for name in columns)])
    return line.getvalue()


def _text(value: float) -> str:
    if isinstance(value, numbers.Integral):
        return str(int(value))
    return repr(float(value))


def _number(path: Path, name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        # Cells are typed by hand at times; NaN would hide that.
        raise ValueError(f"{path}: {cell!r} in column {name!r} is not a number") from None

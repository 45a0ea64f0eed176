"""What trackers of a run share: its RL steps, its folder, and going on after a resume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtpo_lit.run_folder import RunFolder
from gtpo_lit.run_logger import RunLogger, without_noise


class Follower:
    """Mixed into a Lightning logger that is to follow a `RunLogger`.

    Once it follows, metrics go to the RL step that the run's own logger would write them to; the
    run logger has to be listed first. Alone it counts by the metrics' "epoch".
    """

    run_logger: RunLogger | None = None

    def follow(self, run_logger: RunLogger) -> None:
        """Count as `run_logger` does; called before the first metric."""
        self.run_logger = run_logger

    def row_of(self, metrics: Mapping[str, Any]) -> int:
        """The RL step that a call of `log_metrics` belongs to."""
        if self.run_logger is not None:
            return self.run_logger.row_of(metrics)
        return int(metrics.get("epoch", 0)) + 1

    @property
    def run_folder(self) -> RunFolder | None:
        """The run's folder on rank zero; None if nobody is followed."""
        return None if self.run_logger is None else self.run_logger.experiment

    def remembered(self, kind: str) -> str | None:
        """The tracker's own id of this run, if an earlier process of the run has noted it."""
        file = self._id_file(kind)
        return file.read_text(encoding="utf-8").strip() if file and file.is_file() else None

    def remember(self, kind: str, number: str) -> None:
        """Note that id, so that a run that goes on in its folder goes on there, too."""
        file = self._id_file(kind)
        if file is not None:
            file.write_text(f"{number}\n", encoding="utf-8")

    def _id_file(self, kind: str) -> Path | None:
        folder = self.run_folder
        return None if folder is None else folder.path / f"{kind}.id"


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics without Lightning's own counters, as plain numbers."""
    return {name: float(value) for name, value in without_noise(metrics).items()}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    r"""A table as Markdown; cells keep their text, line ends and bars are escaped.

    >>> print(markdown(["a", "b"], [[1, "x|y"], [0.25, "one\ntwo"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    | 0.25 | one<br>two |
    """
    lines = [columns, *[[_cell(value) for value in row] for row in rows]]
    text = ["| " + " | ".join(map(str, line)) + " |" for line in lines]
    return "\n".join([text[0], "|" + "---|" * len(columns), *text[1:]])


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", "<br>")

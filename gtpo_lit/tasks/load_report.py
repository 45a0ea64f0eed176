"""What became of the rows of a data file."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class LoadReport:
    """Counts of rows; every row that was read is in exactly one of the others."""

    rows: int = 0
    """Rows read."""
    filtered: int = 0
    """Left out by `keep` or `drop`."""
    no_question: int = 0
    """Left out for an empty or missing question, or one that is no text."""
    no_answer: int = 0
    """Left out for an empty, missing or unusable reference answer."""
    duplicates: int = 0
    """Left out since a former row has the same question and the same answer."""
    used: int = 0
    """Rows that became problems."""

    def summary(self) -> str:
        """A line with the counts that are not zero.

        >>> LoadReport(rows=960, duplicates=930, used=30).summary()
        '960 rows read, 930 exact duplicates dropped, 30 problems'
        """
        parts = [f"{self.rows} rows read"]
        dropped = {
            "filtered out": self.filtered,
            "without a question dropped": self.no_question,
            "without a usable answer dropped": self.no_answer,
            "exact duplicates dropped": self.duplicates,
        }
        parts += [f"{count} {what}" for what, count in dropped.items() if count]
        return ", ".join([*parts, f"{self.used} problems"])

"""Problems from a hub set or from local JSONL, parquet and CSV files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from gtpo_lit.tasks.columns import ColumnMap, cell, check_columns, top_column
from gtpo_lit.tasks.dataset_files import batches, open_dataset
from gtpo_lit.tasks.load_report import LoadReport
from gtpo_lit.tasks.reference_answers import (
    AnswerForm,
    cell_text,
    check_answer_form,
    reference_answer,
)
from gtpo_lit.tasks.source import ProblemSource
from gtpo_lit.types import Problem

Filter = dict[str, list[Any]]


class DatasetSource(ProblemSource):
    """The usable rows of a data set, in file order, each kept once.

    It is read when the first problem is asked for. Rows without a question or a usable reference
    answer are dropped, as are exact duplicates: the same question and the same answer. Rows that
    differ in either stay apart, under ids of their own. `note` tells the counts.

    Each problem's `metadata` holds the `row` in the file, from 0, and the answer as it is
    `written` there, before its form is made even.
    """

    def __init__(
        self,
        name: str,
        path: str,
        split: str = "train",
        config: str | None = None,
        revision: str | None = None,
        columns: ColumnMap = ColumnMap(),  # noqa: B008 (frozen)
        answer_form: AnswerForm = "auto",
        normalize: bool = True,
        question_prefix: str = "",
        question_suffix: str = "",
        keep: Filter | None = None,
        drop: Filter | None = None,
        drop_duplicates: bool = True,
        limit: int | None = None,
    ) -> None:
        """Say what to read.

        Args:
            name: short name of the set; it becomes a part of metric names.
            path: id of a hub set such as "openai/gsm8k", or a local file that ends in .jsonl,
                .json, .parquet, .csv or .tsv. Environment variables, `~` and patterns such as
                `part-*.parquet` are expanded.
            split: which split of it, or a slice of one such as "train[:100]".
            config: configuration of a hub set.
            revision: branch, tag or commit of a hub set; give a commit for a set that stays.
            columns: which columns hold what.
            answer_form: where the answer stands in its column: "plain", all of it; "hashes",
                behind the last ``####``; "boxed", in the last box; or "auto", by the mark it has.
            normalize: whether to bring answers into one form (`27.0` and `27`).
            question_prefix: a text that is cut from the start of questions that have it.
            question_suffix: a text that is cut from their end.
            keep: only rows whose column holds one of these values, by column.
            drop: no rows whose column holds one of these values, by column.
            drop_duplicates: whether exact duplicates are dropped.
            limit: only this many problems, the first ones.

        Raises:
            ValueError: if an option is out of range.
        """
        check_answer_form(answer_form)
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        if not name or "/" in name:
            raise ValueError(f"name must be a word without slashes, got {name!r}")
        self.name = name
        self.path = path
        self.split = split
        self.config = config
        self.revision = revision
        self.columns = columns
        self.answer_form: AnswerForm = answer_form
        self.normalize = normalize
        self.question_prefix = question_prefix
        self.question_suffix = question_suffix
        self.keep = {column: _texts(values) for column, values in (keep or {}).items()}
        self.drop = {column: _texts(values) for column, values in (drop or {}).items()}
        self.drop_duplicates = drop_duplicates
        self.limit = limit

    def __len__(self) -> int:
        """Number of problems. Reads the set, and raises as `load` does."""
        return len(self._loaded[0])

    def problem(self, index: int) -> Problem:
        """The problem at `index`. Reads the set, and raises as `load` does."""
        self.check_index(index)
        return self._loaded[0][index]

    def note(self) -> str:
        """How many rows were read, dropped and kept."""
        return f"{self.path}: {self.report.summary()}"

    @property
    def report(self) -> LoadReport:
        """The counts behind `note`."""
        return self._loaded[1]

    @cached_property
    def _loaded(self) -> tuple[tuple[Problem, ...], LoadReport]:
        return self.load()

    def load(self) -> tuple[tuple[Problem, ...], LoadReport]:
        """Read the set.

        Raises:
            ValueError: if it cannot be read, if a column does not exist (with those that do), or
                if no row is usable.
        """
        report = LoadReport()
        problems: dict[str, Problem] = {}
        copies: set[tuple[str, str | None]] = set()
        seen: set[tuple[str, str]] = set()
        for number, row in enumerate(self._rows()):
            report.rows += 1
            if not self._passes(row):
                report.filtered += 1
                continue
            asked, text = self._cells(row)
            # Files may hold a hundred copies of each row: most go before any work is done on them.
            if self.drop_duplicates and (asked, text) in copies:
                report.duplicates += 1
                continue
            problem = self._read(number, row, report)
            if problem is None:
                continue
            copies.add((asked, text))
            key = (problem.question, problem.answer)
            if self.drop_duplicates and key in seen:
                report.duplicates += 1
                continue
            seen.add(key)
            if problem.id in problems:  # ids of a file may repeat, those of problems may not
                problem = dataclasses.replace(problem, id=f"{problem.id}#{number}")
            problems[problem.id] = problem
            report.used += 1
            if report.used == self.limit:
                break
        if not problems:
            raise ValueError(
                f"{self.name}: {self.path!r} has no usable row with answer_form = "
                f"{self.answer_form!r}: {report.summary()}"
            )
        return tuple(problems.values()), report

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        """The rows with the wanted columns only; these are checked first."""
        named = self.columns.named()
        try:
            table = open_dataset(
                self.path,
                split=self.split,
                config=self.config,
                revision=self.revision,
                text_columns=tuple(named.values()),
            )
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        if not len(table):
            return
        wanted = {f"columns.{field}": column for field, column in named.items()}
        wanted |= {f"keep.{column}": column for column in self.keep}
        wanted |= {f"drop.{column}": column for column in self.drop}
        try:
            check_columns(wanted, table.column_names, table[0])
        except ValueError as error:
            raise ValueError(f"{self.name} ({self.path!r}): {error}") from None
        tops = sorted({top_column(path, table.column_names) for path in wanted.values()})
        for batch in batches(table.select_columns(tops), self.name):
            for cells in zip(*batch.values(), strict=True):
                yield dict(zip(batch, cells, strict=True))

    def _cells(self, row: Mapping[str, Any]) -> tuple[str, str | None]:
        """Question and answer as they stand in the file; "" and None where there is no text."""
        asked = cell(row, self.columns.question)
        text = cell_text(cell(row, self.columns.answer))
        return asked if isinstance(asked, str) else "", text

    def _read(self, number: int, row: Mapping[str, Any], report: LoadReport) -> Problem | None:
        """One row as a problem; None, and counted, if it is none."""
        asked, text = self._cells(row)
        question = asked.removeprefix(self.question_prefix).removesuffix(self.question_suffix)
        if not question.strip():
            report.no_question += 1
            return None
        answer = None if text is None else reference_answer(text, self.answer_form, self.normalize)
        if answer is None:
            report.no_answer += 1
            return None
        key = cell_text(cell(row, self.columns.id)) if self.columns.id else None
        source = cell_text(cell(row, self.columns.source)) if self.columns.source else None
        return Problem(
            id=f"{self.name}/{key or number}",
            question=question.strip(),
            answer=answer[0],
            source=source or self.name,
            metadata={"row": number, "written": answer[1]},
        )

    def _passes(self, row: Mapping[str, Any]) -> bool:
        kept = all(cell_text(cell(row, name)) in values for name, values in self.keep.items())
        return kept and not any(
            cell_text(cell(row, name)) in values for name, values in self.drop.items()
        )


def _texts(values: list[Any]) -> frozenset[str | None]:
    return frozenset(cell_text(value) for value in values)

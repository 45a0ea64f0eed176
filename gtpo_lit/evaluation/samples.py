"""Every sample of an evaluation as a parquet file, written batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gtpo_lit.types import Graded


class SampleFile:
    """One row a sample, one row group a batch; the file appears when it is whole.

    Columns: `problem` (its id), `source`, `question`, `reference` (the reference answer), `sample`
    (its number), `prompt` (as text, special tokens shown), `prompt_ids`, `text`, `token_ids`,
    `tokens` (their number), `finish_reason`, `answer` (what the accuracy reward found; null where
    it found none), `correct`, `reward` (the total) and `reward/<term>` for each term before its
    weight.

    >>> import tempfile
    >>> from gtpo_lit.types import Completion, Problem
    >>> done = Completion(token_ids=(5, 1), text="4", finish_reason="stop")
    >>> problem = Problem(id="a/0", question="2+2?", answer="4")
    >>> graded = Graded(problem=problem, completions=(done,), reward=(1.0,), correct=(True,))
    >>> path = Path(tempfile.mkdtemp()) / "samples.parquet"
    >>> file = SampleFile(path)
    >>> file.add([graded])
    >>> file.close()
    >>> import pyarrow.parquet
    >>> pyarrow.parquet.read_table(path, columns=["problem", "tokens", "correct"]).to_pylist()
    [{'problem': 'a/0', 'tokens': 2, 'correct': True}]
    """

    def __init__(self, path: Path, decode: Callable[[list[int]], str] | None = None) -> None:
        """Touch nothing yet.

        Args:
            path: of the file; a file of that name is replaced.
            decode: turns prompt ids into text; without it the column `prompt` holds nulls.
        """
        self.path = path
        self._decode = decode
        self._writer: Any = None
        self._partial = path.with_name(f"{path.name}.partial")

    def add(self, batch: Sequence[Graded]) -> None:
        """Write the samples of some problems."""
        rows = [row for graded in batch for row in self._rows(graded)]
        if not rows:
            return
        import pyarrow
        import pyarrow.parquet

        schema = _schema(pyarrow, [name for name in rows[0] if name.startswith("reward/")])
        table = pyarrow.Table.from_pylist(rows, schema=schema)
        if self._writer is None:
            self._partial.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pyarrow.parquet.ParquetWriter(self._partial, schema, compression="zstd")
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file; nothing is left of one without a sample."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._partial.replace(self.path)

    def _rows(self, graded: Graded) -> list[dict[str, Any]]:
        prompt_ids = list(graded.prompt_ids)
        prompt = self._decode(prompt_ids) if self._decode and prompt_ids else None
        problem = graded.problem
        return [
            {
                "problem": problem.id,
                "source": problem.source,
                "question": problem.question,
                "reference": problem.answer,
                "sample": sample,
                "prompt": prompt,
                "prompt_ids": prompt_ids,
                "text": done.text,
                "token_ids": list(done.token_ids),
                "tokens": len(done.token_ids),
                "finish_reason": done.finish_reason,
                "answer": graded.answers[sample] if graded.answers is not None else None,
                "correct": bool(graded.correct[sample]),
                "reward": graded.reward[sample],
                **{f"reward/{name}": row[sample] for name, row in graded.components.items()},
            }
            for sample, done in enumerate(graded.completions)
        ]


def _schema(pyarrow: Any, terms: Sequence[str]) -> Any:
    # Without it a batch whose answers are all null would get another type than the next.
    text, whole = pyarrow.large_string(), pyarrow.int32()
    ids, number = pyarrow.large_list(whole), pyarrow.float64()
    types = {
        **dict.fromkeys(("problem", "source", "question", "reference"), text),
        "sample": whole,
        "prompt": text,
        "prompt_ids": ids,
        "text": text,
        "token_ids": ids,
        "tokens": whole,
        "finish_reason": text,
        "answer": text,
        "correct": pyarrow.bool_(),
        "reward": number,
        **dict.fromkeys(terms, number),
    }
    return pyarrow.schema(list(types.items()))

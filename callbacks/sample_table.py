"""A table of a step's samples, on the screen and in the loggers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from callbacks.step_rollouts import step_rollouts
from gtpo_lit.run_logger import log_table
from gtpo_lit.types import Graded, Rollouts

COLUMNS = ("problem", "expected", "right", "reward", "tokens", "entropy", "response")
_CUT = {"problem": 36, "expected": 12}


class SampleTable(Callback):
    """Shows some of an RL step's completions: problem, answer, outcome, length, mean entropy.

    Every `every` steps, and after the last one, `rows` completions of rank zero are printed: of
    each problem in turn the first right and the first wrong one. Loggers that take tables (those of
    `gtpo_lit.loggers`) get them uncut as `samples`. Entropy is in nats a token, `-` where the run
    computes none.
    """

    def __init__(self, every: int = 10, rows: int = 6, width: int = 120, show: bool = True) -> None:
        """Check the options.

        Args:
            every: RL steps between tables.
            rows: completions a table.
            width: of a line on the screen; what is longer is cut.
            show: print, or give it to the loggers only.

        Raises:
            ValueError: naming option and value.
        """
        for name, value, least in (("every", every, 1), ("rows", rows, 1), ("width", width, 40)):
            if value < least:
                raise ValueError(f"SampleTable: {name} must be at least {least}, got {value}")
        self.every = every
        self.rows = rows
        self.width = width
        self.show = show

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the step's samples, if it is its turn."""
        step = trainer.current_epoch + 1
        if not trainer.is_global_zero or (step % self.every and step != trainer.max_epochs):
            return
        graded = getattr(getattr(trainer, "datamodule", None), "graded", [])
        rows = sample_rows(graded, step_rollouts(trainer, type(self).__name__), self.rows)
        if rows and self.show:
            print(f"Samples of RL step {step}\n{screen_table(rows, self.width)}", flush=True)
        if rows:
            log_table(trainer, step, "samples", COLUMNS, rows)


def sample_rows(
    graded: Sequence[Graded], rollouts: Rollouts, count: int
) -> list[tuple[str, str, str, float, int, str, str]]:
    """The first `count` rows of a table with `COLUMNS`.

    Args:
        graded: of this rank, whose completions are the first rows of `rollouts`; where they are
            not, as after dynamic sampling, entropies are "-".
        rollouts: of the step.
        count: number of rows.
    """
    rows = []
    for item, place, row in _chosen(graded):
        completion = item.completions[place]
        rows.append(
            (
                item.problem.question,
                item.problem.answer,
                "yes" if item.correct[place] else "no",
                item.reward[place],
                len(completion.token_ids),
                _entropy(rollouts, row, completion.token_ids),
                completion.text,
            )
        )
        if len(rows) == count:
            break
    return rows


def screen_table(rows: Iterable[Sequence[Any]], width: int) -> str:
    r"""The table as text, one line a row, cut to `width`; problems and answers are cut before.

    >>> print(screen_table([("1+1=", "2", "yes", 1.0, 2, "0.125", "It is\n2")], 80))
    problem  expected  right  reward  tokens  entropy  response
    1+1=     2         yes    1       2       0.125    It is\n2
    """
    lines = [COLUMNS, *[_shown(row) for row in rows]]
    *narrow, _ = zip(*lines, strict=True)
    widths = [max(map(len, column)) for column in narrow]
    text = []
    for line in lines:
        cells = [cell.ljust(size) for cell, size in zip(line, [*widths, 0], strict=True)]
        text.append(_cut("  ".join(cells).rstrip(), width))
    return "\n".join(text)


def _chosen(graded: Sequence[Graded]) -> Iterable[tuple[Graded, int, int]]:
    """Of each problem the first right and the first wrong completion, with its row."""
    start = 0
    for item in graded:
        for right in (True, False):
            if right in item.correct:
                place = item.correct.index(right)
                yield item, place, start + place
        start += len(item.completions)


def _entropy(rollouts: Rollouts, row: int, token_ids: tuple[int, ...]) -> str:
    if row >= len(rollouts.mask):
        return "-"
    mask = rollouts.mask[row]
    values = rollouts.entropy[row][mask]
    if tuple(rollouts.response_ids[row][mask].tolist()) != token_ids or values.isnan().any():
        return "-"
    return f"{float(values.double().mean()):.3f}"


def _shown(row: Sequence[Any]) -> list[str]:
    texts = [f"{value:.3g}" if isinstance(value, float) else str(value) for value in row]
    plain = [text.replace("\n", "\\n") for text in texts]
    limits = [_CUT.get(name) for name in COLUMNS]
    return [_cut(text, limit) if limit else text for text, limit in zip(plain, limits, strict=True)]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."

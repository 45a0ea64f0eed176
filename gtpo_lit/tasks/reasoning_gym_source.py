"""Problems of any reasoning-gym task."""

from __future__ import annotations

import difflib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gtpo_lit.tasks.source import ProblemSource, Split, in_validation
from gtpo_lit.types import Problem

HINT = "reasoning-gym is not installed: pip install 'gtpo-lit[tasks]'"


class ReasoningGymSource(ProblemSource):
    """Distinct questions of one reasoning-gym task, split by a hash of their text.

    Args:
        task: name of the task, such as "chain_sum".
        split: "train" or "validation".
        size: number of problems.
        seed: of the task's generator.
        config: further settings of the task.
    """

    def __init__(
        self,
        task: str,
        split: Split = "train",
        size: int = 1024,
        seed: int = 0,
        config: dict[str, Any] | None = None,
    ) -> None:
        if split not in ("train", "validation"):
            raise ValueError(f"split must be 'train' or 'validation', got {split!r}")
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.name = task
        self._split = split
        with _global_streams_kept():
            self._entries = _entries(task, split, size, seed, config or {})

    def __len__(self) -> int:
        return len(self._entries)

    def problem(self, index: int) -> Problem:
        """The entry at `index`; its metadata is what the task's scorer reads."""
        entry = self._entries[index]
        return Problem(
            id=f"{self.name}/{self._split}/{index}",
            question=entry["question"],
            answer=str(entry["answer"]),
            source=self.name,
            metadata={"task": self.name, "entry": entry},
        )


def _entries(
    task: str, split: Split, size: int, seed: int, config: dict[str, Any]
) -> list[dict[str, Any]]:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise ValueError(HINT) from error
    if task not in DATASETS:
        close = difflib.get_close_matches(task, DATASETS, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(f"task {task!r} is not one of reasoning-gym's{hint}")
    # Nine in ten raw questions are training's; repeats and the split are allowed for.
    raw = (4 if split == "train" else 40) * size + 200
    try:
        dataset = reasoning_gym.create_dataset(task, seed=seed, size=raw, **config)
    except (TypeError, AssertionError, ValueError) as error:
        raise ValueError(f"task {task!r} does not take config = {config}: {error}") from error
    found: dict[str, dict[str, Any]] = {}
    for index in range(raw):
        entry = dataset[index]
        question = entry["question"]
        if question not in found and in_validation(question) == (split == "validation"):
            found[question] = dict(entry)
            if len(found) == size:
                return list(found.values())
    raise ValueError(
        f"size = {size}, but task {task!r} gave only {len(found)} distinct {split} problems"
    )


@contextmanager
def _global_streams_kept() -> Iterator[None]:
    # Some tasks draw from the global stream of `random`, which belongs to the caller.
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)

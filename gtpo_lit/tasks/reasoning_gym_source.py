"""Any task of the `reasoning-gym` package as a problem source."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from gtpo_lit.tasks.reasoning_gym_tasks import build_task, check_task, isolated_random
from gtpo_lit.tasks.source import ProblemSource
from gtpo_lit.tasks.split import Split, check_split, split_of, stable_hash, take_distinct
from gtpo_lit.types import Problem

LEAST_ROWS = 1000
"""Rows of a task's dataset: some are slow to build, whatever their size, and a tenth is kept."""
MOST_ATTEMPTS = 1000
"""Draws for one training problem before all of the task counts as validation."""


class ReasoningGymSource(ProblemSource):
    """Problems of one reasoning-gym task.

    The seed and the number of a problem decide it. No question is in both splits, whatever the two
    seeds, and validation holds no question twice. Each problem's `metadata` holds the task, its
    config and its entry, which `ReasoningGymReward` scores by.
    """

    def __init__(
        self,
        task: str,
        split: Split = "train",
        size: int = 1024,
        seed: int = 0,
        config: dict[str, Any] | None = None,
    ) -> None:
        """Choose the problems.

        Args:
            task: name of a reasoning-gym task, such as "chain_sum"; also the name of the set.
            split: "train" or "validation", which takes a fixed tenth of all questions.
            size: number of problems.
            seed: decides which problems are drawn.
            config: options of the task, without `seed` and `size`; the others keep its defaults.

        Raises:
            ValueError: if an option is unknown or out of range, or if validation has fewer than
                `size` different problems.
            ModuleNotFoundError: if `reasoning-gym` is not installed.
        """
        check_split(split)
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.config = dict(config or {})
        check_task(task, self.config)
        self.name = task
        self.split: Split = split
        self.size = size
        self.seed = seed
        self._rows = max(size, LEAST_ROWS)
        self._datasets: dict[int, Any] = {}
        self._entry(0, 0)  # so that a config that cannot work says so at once
        self._validation: tuple[Problem, ...] = ()
        if split == "validation":
            found = take_distinct(self._validation_stream(), size, patience=200)
            self._validation = tuple(
                self._problem(index, problem.metadata["entry"])
                for index, problem in enumerate(found)
            )

    def __len__(self) -> int:
        """Number of problems."""
        return self.size

    def problem(self, index: int) -> Problem:
        """The problem at `index`."""
        self.check_index(index)
        if self.split == "validation":
            return self._validation[index]
        for attempt in range(MOST_ATTEMPTS):
            entry = self._entry(attempt, index)
            if split_of(entry["question"]) == "train":
                return self._problem(index, entry)
        raise ValueError(
            f"task {self.name!r} has no training problem {index}: {MOST_ATTEMPTS} draws with "
            f"config {self.config} belong to validation"
        )

    def _validation_stream(self) -> Iterator[Problem]:
        for attempt in count():
            for index in range(self._rows):
                entry = self._entry(attempt, index)
                if split_of(entry["question"]) == "validation":
                    yield self._problem(0, entry)

    def _entry(self, attempt: int, index: int) -> dict[str, Any]:
        """Row `index` of a dataset of its own for each attempt, so that rows stay independent."""
        # 31 bits: tasks add the row number and hand the sum to numpy, which takes 32.
        seed = stable_hash(f"reasoning-gym/{self.name}/{self.seed}/{attempt}") % 2**31
        if attempt not in self._datasets:
            self._datasets[attempt] = build_task(self.name, self.config, seed=seed, size=self._rows)
        with isolated_random(seed + index):
            entry: dict[str, Any] = self._datasets[attempt][index]
        return entry

    def _problem(self, index: int, entry: dict[str, Any]) -> Problem:
        answer = entry["answer"]  # None where many answers are right
        return Problem(
            id=f"{self.name}/{self.split}/{index}",
            question=entry["question"],
            answer="" if answer is None else str(answer),
            source=self.name,
            metadata={"task": self.name, "config": self.config, "entry": entry},
        )

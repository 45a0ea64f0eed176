"""Access to the tasks of the `reasoning-gym` package, which is imported only when one is used.

Some of its generators draw from, or reseed, the global random streams of Python and numpy. Every
call into it goes through `isolated_random`, which makes the outcome depend on a seed alone and
leaves the global streams as they were.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy

RESERVED = ("seed", "size")
"""Options of every task's config that the source sets itself."""

HASH_ORDER_TASKS = frozenset(
    {
        "isomorphic_strings",
        "knight_swap",
        "polynomial_multiplication",
        "ransom_note",
        "word_ladder",
    }
)
"""Tasks that walk over sets of strings, so that each process draws other problems."""

# The global streams belong to the whole process; two threads may not exchange them at once.
_lock = threading.RLock()


@contextmanager
def isolated_random(seed: int) -> Iterator[None]:
    """Run the body on global Python and numpy streams started from `seed`, then restore them.

    >>> before = random.getstate()
    >>> with isolated_random(1):
    ...     first = random.random()
    >>> random.getstate() == before, first
    (True, 0.13436424411240122)
    """
    with _lock:
        python_state, numpy_state = random.getstate(), numpy.random.get_state()
        random.seed(seed)
        numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python_state)
            numpy.random.set_state(numpy_state)


def check_task(task: str, config: Mapping[str, Any]) -> None:
    """Check that a task exists and takes these options.

    Raises:
        ValueError: for an unknown task or option, naming what is close to it; for an option that
            the source sets; or if the task needs a fixed `PYTHONHASHSEED` and there is none.
        ModuleNotFoundError: if `reasoning-gym` is not installed.
    """
    known = _registry()
    if task not in known:
        raise ValueError(f"unknown reasoning-gym task {task!r}{_close(task, list(known))}")
    for option in config:
        if option in RESERVED:
            raise ValueError(f"config of {task!r}: set {option} on the source, not in config")
        options = [item.name for item in dataclasses.fields(known[task][1])]
        if option not in options:
            free = [name for name in options if name not in RESERVED]
            raise ValueError(
                f"config of {task!r}: unknown option {option!r}{_close(option, free)}; "
                f"it takes {', '.join(free)}"
            )
    if task in HASH_ORDER_TASKS and os.environ.get("PYTHONHASHSEED", "random") == "random":
        raise ValueError(
            f"task {task!r} gives other problems in every process; set the environment variable "
            "PYTHONHASHSEED=0 to make them repeatable"
        )


def build_task(task: str, config: Mapping[str, Any], *, seed: int, size: int) -> Any:
    """The `ProceduralDataset` of a task, checked as in `check_task`.

    Raises:
        ValueError: also if the task refuses the values in `config`.
    """
    check_task(task, config)
    dataset_class, config_class = _registry()[task]
    try:
        with isolated_random(seed):
            return dataset_class(config=config_class(**config, seed=seed, size=size))
    except (AssertionError, TypeError, ValueError) as error:  # its ways to refuse a config
        raise ValueError(f"config of {task!r} with size={size}: {error} (got {config})") from error


def _registry() -> dict[str, tuple[Any, Any]]:
    try:
        with isolated_random(0):
            registry: dict[str, tuple[Any, Any]] = importlib.import_module(
                "reasoning_gym.factory"
            ).DATASETS
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "reasoning_gym":
            raise
        raise ModuleNotFoundError(
            "reasoning-gym tasks need the package: pip install reasoning-gym", name=error.name
        ) from error
    return registry


def _close(name: str, known: list[str]) -> str:
    matches = get_close_matches(name, known, n=3)
    return f"; did you mean {', '.join(matches)}?" if matches else ""

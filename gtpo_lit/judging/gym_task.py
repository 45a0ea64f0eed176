"""The judge of reasoning-gym answers: the task's own `score_answer`.

Some of these evaluate the answer as Python or as a formula.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy


def prepare_judge() -> None:
    """Import reasoning-gym, which takes seconds."""
    importlib.import_module("reasoning_gym.factory")


def judge(answer: str, task: str, config: str, entry: Mapping[str, Any]) -> float:
    """The score of an answer; 0 where it breaks the scorer.

    Args:
        answer: what the response gave.
        task: name of the task.
        config: its options as JSON.
        entry: the row that was asked.
    """
    scorer = _scorer(task, config)
    random.seed(0)
    numpy.random.seed(0)
    try:
        return float(scorer.score_answer(answer, entry))
    except MemoryError:
        raise
    except (Exception, SystemExit):  # a model's answer that breaks the scorer is wrong
        return 0.0


@lru_cache(maxsize=16)
def _scorer(task: str, config: str) -> Any:
    from reasoning_gym.factory import DATASETS  # an extra

    dataset_class, config_class = DATASETS[task]
    return dataset_class(config=config_class(**json.loads(config), seed=0, size=100))

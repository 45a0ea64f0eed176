"""Scorers of reasoning-gym that evaluate the answer: what hangs in them is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("reasoning_gym")

from gtpo_lit.tasks import ReasoningGymReward, ReasoningGymSource
from gtpo_lit.tasks.rewards import Limits

SHORT = Limits(seconds=2.0, memory_mb=512)
HANGING = ["9**9**9**9", "sum(1 for _ in iter(int, 1))", "__import__('time').sleep(1000)"]


@pytest.mark.parametrize(
    "task",
    [
        "binary_matrix",  # eval
        pytest.param("n_queens", marks=pytest.mark.slow),
        pytest.param("countdown", marks=pytest.mark.slow),  # sympy
        pytest.param("simple_integration", marks=pytest.mark.slow),
        pytest.param("string_insertion", marks=pytest.mark.slow),
    ],
)
def test_a_scorer_that_hangs_is_killed_and_counted(task: str) -> None:
    source = ReasoningGymSource(task, size=2)
    right, other = source.problem(0), source.problem(1)
    # Honest answers first, in a worker that is up: only what hangs has the short limit.
    patient = ReasoningGymReward(extract="whole", limits=Limits(seconds=60.0), workers=1)
    assert patient.grade([right.answer], [right]) == [1.0]
    reward = ReasoningGymReward(extract="whole", limits=SHORT, workers=1)
    hanging = HANGING[0]
    started = time.monotonic()
    marks = reward.mark([hanging], [right])
    # The limit, and a worker that may have to start before it.
    assert time.monotonic() - started < SHORT.seconds + 60
    assert list(marks.scores) == [0.0]
    assert marks.incidents == {"timeouts": [True], "errors": [False]}
    assert reward.counts == {"timeouts": 1, "errors": 0}
    assert patient.grade([right.answer, other.answer], [right, other]) == [1.0, 1.0]


@pytest.mark.slow
def test_python_in_an_answer_that_hangs_is_killed() -> None:
    problem = ReasoningGymSource("binary_matrix", size=1).problem(0)
    reward = ReasoningGymReward(extract="whole", limits=SHORT, workers=2)
    started = time.monotonic()
    assert reward.grade([*HANGING, problem.answer], [problem] * 4) == [0.0, 0.0, 0.0, 1.0]
    assert reward.counts == {"timeouts": 3, "errors": 0}
    assert time.monotonic() - started < 2 * SHORT.seconds + 120


def test_what_an_answer_starts_is_killed_with_it(tmp_path: Path) -> None:
    problem = ReasoningGymSource("binary_matrix", size=1).problem(0)
    sign = tmp_path / "alive"
    program = f"sleep 8; touch {sign}"
    answer = f"__import__('subprocess').run(['sh', '-c', {program!r}])"
    reward = ReasoningGymReward(extract="whole", limits=SHORT, workers=1)
    assert reward.grade([answer], [problem]) == [0.0]
    assert reward.counts["timeouts"] == 1
    time.sleep(8)
    assert not sign.exists()

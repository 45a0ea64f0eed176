from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gtpo_lit.tasks.pool import Limits, Verdict, WorkerPool, shared_pool

HERE = Path(__file__).parent
JUDGES = "hostile_judges"
SHORT = Limits(seconds=1.0, memory_mb=200)
# Only what hangs is given a short limit: a busy machine may need a second for anything.
LONG = Limits(seconds=60.0, memory_mb=200)


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    sys.path.insert(0, str(HERE))
    pool = WorkerPool(2)
    yield pool
    pool.close()
    sys.path.remove(str(HERE))


def judged(pool: WorkerPool, name: str, *values: Any, limits: Limits = LONG) -> list[Verdict]:
    return pool.run(f"{JUDGES}:{name}", [{"value": value} for value in values], limits)


def test_scores_keep_their_order(pool: WorkerPool) -> None:
    values = [float(i) for i in range(200)]
    assert [verdict.score for verdict in judged(pool, "number", *values)] == values
    assert judged(pool, "number") == []


def test_the_same_from_any_thread(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda i: judged(pool, "number", i, i + 0.5), range(40)))
    assert [[verdict.score for verdict in row] for row in rows] == [[i, i + 0.5] for i in range(40)]


@pytest.mark.parametrize("name", ["hang", "hang_in_c", "ignore_signals"])
def test_a_hang_is_killed_at_the_limit_and_its_worker_replaced(pool: WorkerPool, name: str) -> None:
    judged(pool, "number", 1.0, 2.0)  # both are up
    before = {verdict.score for verdict in judged(pool, "process_id", *range(50))}
    started = time.monotonic()
    assert [verdict.status for verdict in judged(pool, name, 0, 0, 0, limits=SHORT)] == [
        "timeout"
    ] * 3
    # Two workers and three hangs of 1 s: two rounds and a restart, which a busy machine slows.
    assert time.monotonic() - started < 2 + 20
    after = {verdict.score for verdict in judged(pool, "process_id", *range(50))}
    assert len(before | after) == len(before) + len(after)
    for process in before:
        with pytest.raises(ProcessLookupError):
            os.kill(int(process), 0)


def test_a_hang_does_not_touch_its_neighbours(pool: WorkerPool) -> None:
    with ThreadPoolExecutor(2) as threads:
        hanging = threads.submit(judged, pool, "hang", 0, limits=SHORT)
        assert [verdict.score for verdict in judged(pool, "number", 3.0, 4.0)] == [3.0, 4.0]
        assert hanging.result()[0].status == "timeout"


def test_memory_is_bounded(pool: WorkerPool) -> None:
    assert judged(pool, "eat_memory", 20)[0] == Verdict("scored", 20.0)
    assert judged(pool, "eat_memory", 10**6)[0].status == "memory"
    wide = Limits(seconds=60.0, memory_mb=600)
    assert judged(pool, "eat_memory", 300, limits=wide)[0] == Verdict("scored", 300.0)


def test_death_and_exceptions_are_told_apart(pool: WorkerPool) -> None:
    died = judged(pool, "die", 0)[0]
    assert (died.status, died.score, died.detail) == ("died", 0.0, f"exit status {-signal.SIGSEGV}")
    failed = judged(pool, "fail", "bread")[0]
    assert failed.status == "error"
    assert "KeyError: 'no bread'" in failed.detail
    assert judged(pool, "leave", 0)[0].status == "error"
    assert "returned nan" in judged(pool, "not_a_number", 0)[0].detail
    assert judged(pool, "number", 1.0)[0] == Verdict("scored", 1.0)


def test_printing_does_not_reach_the_outcomes(pool: WorkerPool) -> None:
    assert [verdict.score for verdict in judged(pool, "shout", 1.0, 0.25, 0.5)] == [1.0, 0.25, 0.5]


def test_arguments_longer_than_a_pipe(pool: WorkerPool) -> None:
    assert judged(pool, "length", "x" * 3_000_000)[0].score == 3_000_000


def test_a_worker_killed_between_answers_costs_nothing(pool: WorkerPool) -> None:
    for verdict in judged(pool, "process_id", *range(20)):
        try:
            os.kill(int(verdict.score), signal.SIGKILL)
        except ProcessLookupError:
            continue
    assert [verdict.score for verdict in judged(pool, "number", 1.0, 2.0)] == [1.0, 2.0]


def test_preparation_is_not_on_the_clock() -> None:
    sys.path.insert(0, str(HERE))
    pool = WorkerPool(1)
    try:
        # It sleeps longer than the limit.
        assert judged(pool, "first_call_is_slow", 0, limits=SHORT)[0] == Verdict("scored", 1.0)
    finally:
        pool.close()
        sys.path.remove(str(HERE))


def test_a_judge_that_cannot_be_imported_is_an_error(pool: WorkerPool) -> None:
    for path, message in (("no_such_module:f", "No module named"), (f"{JUDGES}:no", "no function")):
        with pytest.raises(RuntimeError, match=message):
            pool.run(path, [{}], SHORT)
    assert judged(pool, "number", 1.0)[0].score == 1.0


def test_workers_leave_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, threading\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "from gtpo_lit.tasks.pool import Limits, WorkerPool\n"
        "pool = WorkerPool(1)\n"
        f"print(int(pool.run('{JUDGES}:process_id', [dict(value=0)])[0].score), flush=True)\n"
        f"pool.run('{JUDGES}:hang', [dict(value=0)], Limits(seconds=1.0))\n"
    )
    root = str(Path(__file__).parents[4])
    process = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    time.sleep(0.3)
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while _alive(worker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(worker)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_one_pool_a_process() -> None:
    assert shared_pool() is shared_pool()
    assert 1 <= shared_pool().workers <= 4


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        WorkerPool(0)
    for seconds in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"limits\.seconds must be positive and finite, got"):
            Limits(seconds=seconds)
    with pytest.raises(ValueError, match=r"limits\.memory_mb must be at least 1, got 0"):
        Limits(memory_mb=0)
    assert pickle.loads(pickle.dumps(Limits(seconds=3.0))).seconds == 3.0

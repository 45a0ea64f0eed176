"""The number of worker processes, and two ranks with pools of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from gtpo_lit.tasks import FunctionReward, MathReward, ReasoningGymReward
from gtpo_lit.tasks.pool import shared_pool, worker_pool
from gtpo_lit.tasks.rewards import Limits

HERE = Path(__file__).parent
SLOW_MACHINE = Limits(seconds=60.0)


def test_rewards_with_as_many_workers_share_a_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_shared", {})
    monkeypatch.setattr(worker_pool, "_cores", lambda: 3)
    assert [shared_pool(size).workers for size in (None, 1, 2, 7)] == [3, 1, 2, 7]
    assert shared_pool(3) is shared_pool()
    assert shared_pool(2) is shared_pool(2)
    assert shared_pool(2) is not shared_pool(1)
    monkeypatch.setattr(worker_pool, "_cores", lambda: 64)
    assert shared_pool().workers == 4


def test_the_pool_starts_no_more_processes_than_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_shared", {})
    monkeypatch.syspath_prepend(HERE)
    try:
        for workers in (1, 2):
            reward = FunctionReward("own_rewards:process_id", limits=SLOW_MACHINE, workers=workers)
            processes = set(reward.score([""] * 40, [""] * 40))
            assert 1 <= len(processes) <= workers
        lone = FunctionReward("own_rewards:process_id", limits=SLOW_MACHINE, workers=1)
        assert set(lone.score([""] * 3, [""] * 3)) < set(range(2**22))
        assert len(set(lone.score([""] * 30, [""] * 30))) == 1
    finally:
        worker_pool._close_shared()


def test_a_number_below_one_is_refused_at_once() -> None:
    for make in (
        lambda: MathReward(workers=0),
        lambda: FunctionReward("own_rewards:process_id", workers=-1),
        lambda: ReasoningGymReward(workers=0),
    ):
        with pytest.raises(ValueError, match=r"workers must be at least 1, got (0|-1)"):
            make()


RANK = """
import json, os, sys
import torch.distributed as dist
from gtpo_lit.tasks import FunctionReward, MathReward
from gtpo_lit.tasks.rewards import Limits

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://{folder}/store", rank=rank, world_size=2)
long = Limits(seconds=60.0)
maths = MathReward(limits=long, workers=2)
hanging = FunctionReward("own_rewards:hangs_on_rank_1", limits=Limits(seconds=1.0), workers=1)
identity = FunctionReward("own_rewards:process_id", limits=long, workers=2)
said = []
for step in range(2):
    half = [r"\\boxed{{2/4}}", r"\\boxed{{1/3}}"] * 10
    said.append(maths.score(half, ["1/2"] * 10 + ["1/3"] * 10))
    said.append(hanging.score(["a"], [str(rank)]))
    gathered = [None, None]
    dist.all_gather_object(gathered, said)
    dist.barrier()
processes = sorted({{int(one) for one in identity.score([""] * 40, [""] * 40)}})
if {fails} and rank == 1:
    print("SAID", json.dumps([gathered, hanging.counts, processes]), flush=True)
    raise RuntimeError("a fault on one rank")
print("SAID", json.dumps([gathered, hanging.counts, processes]), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_two_ranks_judge_alike_and_leave_no_process(tmp_path: Path, fails: bool) -> None:
    program = RANK.format(folder=str(tmp_path), fails=fails)
    path = f"{HERE.parents[3]}{os.pathsep}{HERE}"
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "RANK": str(rank), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=400) for process in ranks]
    assert [process.returncode for process in ranks] == [0, int(fails)], outputs
    rows = [json.loads(out.partition("SAID ")[2].splitlines()[0]) for out, _ in outputs]
    right = [1.0, 0.0] * 5 + [0.0, 1.0] * 5
    # What each rank gathered: its own scores and the other's.
    for gathered, _, _ in rows:
        assert gathered == [[right, [1.0], right, [1.0]], [right, [0.0], right, [0.0]]]
    assert [counts["timeouts"] for _, counts, _ in rows] == [0, 2]
    (_, _, first), (_, _, second) = rows
    assert not set(first) & set(second)
    deadline = time.monotonic() + 30
    while any(map(_alive, first + second)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [process for process in first + second if _alive(process)] == []


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"

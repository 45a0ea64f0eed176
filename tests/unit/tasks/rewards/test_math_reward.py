from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("math_verify")

from gtpo_lit.tasks import MathReward
from gtpo_lit.tasks.pool import worker_process
from gtpo_lit.tasks.rewards import Limits
from gtpo_lit.types import Problem

SLOW_MACHINE = Limits(seconds=60.0)


def score(completion: str, answer: str, **options: bool) -> float:
    return MathReward(limits=SLOW_MACHINE, **options).score([completion], [answer])[0]


@pytest.mark.parametrize(
    ("completion", "answer", "wanted"),
    [
        # One box twice is one answer.
        (r"is \boxed{840}., but let me explain. **Final Answer** \boxed{840}", "840", 1.0),
        (r"... \boxed{004} ... So, \boxed{004} ...", "4", 1.0),
        # The last complete box decides.
        (r"\boxed{3} or rather \boxed{4}", "4", 1.0),
        (r"\boxed{4} or rather \boxed{3}", "4", 0.0),
        (r"\boxed{4} and then \boxed{3", "4", 1.0),
        (r"\boxed{\frac{1}{2^{\frac{4}{2}}}}", "1/4", 1.0),
        (r"\boxed{\text{the set } \{1\}", "4", 0.0),
        (r"\boxed{4} \boxed{}", "4", 0.0),
        (r"\boxed {4}", "4", 1.0),
        ("4", "4", 0.0),
        ("", "4", 0.0),
        # Only what follows a closed reasoning block.
        (r"<think>\boxed{4}</think> so \boxed{5}", "4", 0.0),
        (r"<think>\boxed{5}</think> so \boxed{4}", "4", 1.0),
        (r"<think>\boxed{4}</think>", "4", 0.0),
        (r"<think>\boxed{4}", "4", 0.0),
        # References as the public files have them.
        (r"\boxed{72}", "6*12 = <<6*12=72>>72\n#### 72", 1.0),
        (r"\boxed{27}", "27.0", 1.0),
        (r"\boxed{1/3}", r"so the answer is $\boxed{\frac{1}{3}}$.", 1.0),
        (r"\boxed{4}", "", 0.0),
    ],
)
def test_which_answer_is_read(completion: str, answer: str, wanted: float) -> None:
    assert score(completion, answer) == wanted


def test_without_a_box_if_none_is_required() -> None:
    for completion, wanted in (
        ("The answer is 4.", 1.0),
        ("**Answer:** $x = 4$", 1.0),
        ("3 + 1 gives $4$, clearly", 1.0),
        ("I get 4", 1.0),
        ("the answer is 5, not 4", 0.0),
        (r"The answer is 4. \boxed{5}", 0.0),
        ("nothing", 0.0),
    ):
        assert score(completion, "4", boxed_required=False) == wanted, completion
        assert score(completion, "4") == 0.0
    assert score("4", "4", boxed_required=False, require_think=True) == 0.0
    assert score("</think>4", "4", boxed_required=False, require_think=True) == 1.0


def _in_this_thread(call: Callable[[], list[float]]) -> list[list[float]]:
    return [call()]


def _in_a_plain_thread(call: Callable[[], list[float]]) -> list[list[float]]:
    rows: list[list[float]] = []
    thread = Thread(target=lambda: rows.append(call()))
    thread.start()
    thread.join()
    return rows


def _in_eight_threads(call: Callable[[], list[float]]) -> list[list[float]]:
    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(lambda _: call(), range(16)))


@pytest.mark.parametrize("run", [_in_this_thread, _in_a_plain_thread, _in_eight_threads])
def test_the_same_in_every_thread(
    run: Callable[[Callable[[], list[float]]], list[list[float]]],
) -> None:
    reward = MathReward(limits=SLOW_MACHINE)
    completions = [r"\boxed{\frac{1}{3}}", r"\boxed{\frac{1}{4}}", r"\boxed{2/6}"]
    rows = run(lambda: reward.score(completions, [r"\frac{1}{3}"] * 3))
    assert rows
    assert all(row == [1.0, 0.0, 1.0] for row in rows)
    assert reward.counts == {"timeouts": 0, "errors": 0}


def test_power_towers_and_garbage() -> None:
    reward = MathReward(limits=SLOW_MACHINE)
    tower = r"\boxed{\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}}"
    assert reward.score([r"\boxed{5}", tower, r"\boxed{7}"], ["5", "3", "7"]) == [1.0, 0.0, 1.0]
    garbage = r"{@N 1276915 4951077 zzz {1,1-3-10 foo);5 bar"
    for text in (garbage, rf"\boxed{{{garbage}}}", rf"\boxed{{{garbage}}}}}"):
        assert reward.score([text], ["92.5857658508735"]) == [0.0]
    assert MathReward(boxed_required=False).score([garbage], ["92.5857658508735"]) == [0.0]
    assert reward.score([r"\boxed{6/2}"], ["3"]) == [1.0]


def test_a_timeout_is_marked_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(descriptor: int, event: int, deadline: float) -> None:
        # On a busy machine the answer may lie ready before the first look.
        if event == select.POLLIN and time.monotonic() >= deadline:
            raise TimeoutError
        patient(descriptor, event, deadline)

    patient = worker_process._wait
    monkeypatch.setattr(worker_process, "_wait", strict)
    # No answer is judged in a microsecond.
    reward = MathReward(limits=Limits(seconds=1e-6))
    problems = [Problem(id=str(i), question="q", answer="0.5") for i in range(3)]
    marks = reward.mark([r"\boxed{0.5}", r"\boxed{1/2}", "none"], problems)
    assert list(marks.scores) == [1.0, 0.0, 0.0]
    assert marks.incidents == {"timeouts": [False, True, False], "errors": [False] * 3}
    assert reward.counts == {"timeouts": 1, "errors": 0}
    assert reward.grade([r"\boxed{0.5}"], problems[:1]) == [1.0]


def test_it_pickles_and_refuses_unequal_numbers() -> None:
    reward = pickle.loads(pickle.dumps(MathReward(limits=SLOW_MACHINE)))
    assert reward.score([r"\boxed{2/4}"], ["1/2"]) == [1.0]
    with pytest.raises(ValueError, match="longer"):
        reward.score(["4"], ["4", "5"])
    with pytest.raises(ValueError, match="on_error must be one of .* got 'ignore'"):
        MathReward(on_error="ignore")


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from gtpo_lit.tasks.rewards import FunctionReward, MathReward\n"
        "print(MathReward().score([r'\\boxed{2/4}', r'\\boxed{3/4}'], ['1/2', '1/2']))\n"
        "print(FunctionReward('own_reward:length').score(['abc'], ['']))\n"
    )
    (tmp_path / "own_reward.py").write_text(
        "def length(completion, answer):\n    return len(completion)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert (done.stdout, done.stderr, done.returncode) == ("[1.0, 0.0]\n[3.0]\n", "", 0)

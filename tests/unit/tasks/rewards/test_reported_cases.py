"""Cases that users of other training code reported, and more of their kinds."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("math_verify")

from gtpo_lit.tasks import ExactReward, MathReward, RewardTerm, WeightedReward
from gtpo_lit.tasks.rewards import Limits
from gtpo_lit.types import Problem

SLOW_MACHINE = Limits(seconds=60.0)


def problems(*answers: str, question: str = "q") -> list[Problem]:
    return [Problem(id=f"p{i}", question=question, answer=text) for i, text in enumerate(answers)]


@pytest.mark.parametrize(
    ("completion", "answer", "wanted"),
    [
        # Math-Verify#44: an answer boxed twice is one answer.
        (r"So \boxed{840}., but let me explain. **Final Answer** \boxed{840}", "840", 1.0),
        (r"So \boxed{004} it is ... So, \boxed{004} in all", "4", 1.0),
        # Any number of times, in any form, with anything between; the last one decides.
        (r"\boxed{840}" * 7, "840", 1.0),
        (r"\boxed{840}\boxed{8}\boxed{40}", "840", 0.0),
        (r"\boxed{8}\boxed{40}\boxed{840}", "840", 1.0),
        (r"\boxed{4}, \boxed{4.004}", "4", 0.0),
        (r"\boxed{\frac{1}{2}} = \boxed{0.5}", "1/2", 1.0),
        (r"$$\boxed{840}$$" + "\n\n**Final Answer**\n$$\\boxed{840\\text{ apples}}$$", "840", 1.0),
        (r"\boxed{840} \boxed{840} \boxed{84", "840", 1.0),
        (r"\boxed{84} \boxed{0}", "840", 0.0),
        (r"\boxed{x=4} and \boxed{x=4}", "4", 1.0),
        (r"x \in \{\boxed{1}, \boxed{2}\}", "1, 2", 0.0),
        (r"x \in \{\boxed{1}, \boxed{2}\}", "2", 1.0),
    ],
)
def test_an_answer_boxed_twice(completion: str, answer: str, wanted: float) -> None:
    assert MathReward(limits=SLOW_MACHINE).score([completion], [answer]) == [wanted]


def test_a_limit_holds_in_every_thread() -> None:
    # Math-Verify#50, #65: right in any thread, and what hangs ends in any thread.
    hanging = r"\boxed{\int_0^1 \tan(\sin(x^{x+7})) dx}"
    reference = r"\int_0^1 \sin(\tan(x^{x+7})) dx"
    reward = MathReward(limits=Limits(seconds=2.0), workers=2)
    patient = MathReward(limits=SLOW_MACHINE, workers=2)
    honest = [r"\boxed{\frac{1}{3}}", r"\boxed{\frac{1}{4}}"]
    assert patient.score(honest, [r"\frac{1}{3}"] * 2) == [1.0, 0.0]
    found: dict[str, list[float]] = {}

    def score(name: str) -> None:
        found[name] = reward.score([hanging], [reference])
        found[f"{name}, honest"] = patient.score(honest, [r"\frac{1}{3}"] * 2)

    started = time.monotonic()
    thread = threading.Thread(target=score, args=("thread",))
    thread.start()
    score("main")
    thread.join()
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(score, ["pool 1", "pool 2"]))
    for name in ("thread", "main", "pool 1", "pool 2"):
        assert found[name] == [0.0]
        assert found[f"{name}, honest"] == [1.0, 0.0]
    assert reward.counts == {"timeouts": 4, "errors": 0}
    # Four hangs on two workers, and their restarts on a busy machine.
    assert time.monotonic() - started < 2 * 2.0 + 120


def test_towers_between_honest_answers() -> None:
    # Math-Verify#65: each of these took for ever, or all memory.
    towers = [
        r"\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}",
        "9^{9^{9^{9^9}}}",
        "2**3**4**5**6**7",
        r"10^{10^{10}} \mod 7",
        r"((((7!)!)!)!)!",
        r"\prod_{k=1}^{10^{10}} k^{k^k}",
        r"\binom{10^{20}}{10^{10}}",
        r"\sqrt[10^{10}]{2^{10^{10}}}",
        r"0.\overline{" + "1" * 1500 + "}",
        "9" * 1999,
    ]
    completions = [rf"\boxed{{{text}}}" for tower in towers for text in ("6/2", tower)]
    reward = MathReward(limits=Limits(seconds=10.0))
    assert reward.score(completions, ["3"] * 20) == [1.0, 0.0] * 10
    assert reward.counts["errors"] == 0


def test_scores_stay_with_their_completions_in_any_order_of_prompts() -> None:
    # R1-V#67: completions of two prompts, interleaved and grouped.
    reward = WeightedReward(MathReward(limits=SLOW_MACHINE))
    first, second = problems("1/2", "3")
    right = {first.id: r"\boxed{0.5}", second.id: r"\boxed{\sqrt{9}}"}
    for order, wanted in (
        ([first, second, first, second], (True, False, True, False)),
        ([first, first, second, second], (True, True, False, False)),
        ([second, first, first, second], (False, True, True, False)),
    ):
        assert reward.grade([right[first.id]] * 4, order).correct == wanted
        assert all(reward.grade([right[one.id] for one in order], order).correct)


def test_rows_with_the_same_text_keep_their_own_answers() -> None:
    # verl#3238: two rows with one prompt text and different references.
    rows = problems("4", "5", question="What is it?")
    reward = WeightedReward(
        MathReward(limits=SLOW_MACHINE),
        others=[RewardTerm(name="exact", reward=ExactReward(extract="boxed"))],
    )
    scores = reward.grade([r"\boxed{4}"] * 4 + [r"\boxed{8/2}"] * 4, [rows[0], rows[1]] * 4)
    assert scores.accuracy == (1.0, 0.0) * 4
    assert scores.components["exact"] == (1.0, 0.0, 1.0, 0.0) + (0.0,) * 4


def test_a_reward_gives_as_many_scores_as_it_was_asked_for() -> None:
    # pytorch-lightning#4732: nothing is repeated or dropped to make a batch even.
    for number in (0, 1, 5, 7):
        completions = [rf"\boxed{{{place}/1}}" for place in range(number)]
        scores = MathReward(limits=SLOW_MACHINE, workers=4).score(completions, ["0"] * number)
        assert scores == [1.0] * min(number, 1) + [0.0] * max(0, number - 1)

"""Changed and rewritten references, by hand, and the judge on many of them.

The large numbers of answers are in the slow tests.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("math_verify")

from gtpo_lit.judging.math_answer import judge
from gtpo_lit.tasks.rewards import Limits, MathReward

ROOT = Path(__file__).parents[3]
HANGS = 20
STRANGE = (r"\text{ miles}", r"\text{ hours}", r"\text{ kg}", r"\text{ liters}^3")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture(scope="module")
def data() -> Path:
    folder = os.environ.get("GTPO_LIT_DATA")
    if folder is None:
        pytest.skip("GTPO_LIT_DATA does not name the folder of the benchmark files")
    return Path(folder)


def made(number: int, seed: int):
    """Mutants and rewrites of composed references; they need no file."""
    from benchmarks.answers.composed import composed
    from benchmarks.answers.mutants import make_mutants
    from benchmarks.answers.rewrites import make_rewrites

    shaped, plain = composed(range(2, 1000), 90), [str(n) for n in range(7, 2000, 13)]
    mutants = make_mutants(shaped, plain, number, seed=seed)
    return mutants, make_rewrites(shaped + plain[::8], number, seed=seed)


def test_sympy_tells_equal_from_different() -> None:
    from benchmarks.answers.difference import differ

    for first, second, different in (
        (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}", True),
        (r"\frac43", r"\frac{8}{6}", False),
        (r"-137 \frac{1}{2}", "-137.5", False),
        ("10,080", r"10,\!080", False),
        ("0", "-0", False),
        ("6 - 5i", "6 + 5i", True),
        ("x - y = 0", "y - x = 0", False),
        ("x - y = 0", "x + y = 0", True),
        ("5x = 10y + 5", "x = 2y + 1", False),
        ("5x = 10y + 5", "x = 2y + 2", True),
        (r"\frac{33}{100}", r"\frac{33}{00}", True),
        ("2516_8", "2516_2", None),
        (r"\begin{", "1", None),
    ):
        assert differ(first, second) is different, (first, second)


@pytest.mark.parametrize(
    ("reference", "kind", "wanted"),
    [
        ("18", "digit", {"28", "58", "88", "19", "12", "15"}),
        ("18", "digits swapped", {"81"}),
        ("18", "digit dropped", {"8"}),
        ("1.25", "point moved", {"12.5"}),
        ("6 - 5i", "sign", {"6 + 5i", "-6 - 5i"}),
        ("(3, -2]", "sign", {"(-3, -2]", "(3, 2]"}),
        ("x^2+3x-6", "term dropped", {"3x-6", "x^2-6", "x^2+3x"}),
        ("x - 1", "term doubled", {"x - 1 +x", "x - 1 -1"}),
        (r"3\sqrt{13}", "factor dropped", {r"\sqrt{13}"}),
        (r"3\sqrt{13}", "root dropped", {"3(13)"}),
        (r"\frac{3}{4}, 1", "fraction turned", {r"\frac{4}{3}, 1"}),
        (r"86 \mbox{ in}^2", "digit doubled", {r"886 \mbox{ in}^2", r"866 \mbox{ in}^2"}),
        ("(1,2,3)", "coordinates swapped", {"(2,1,3)", "(1,3,2)"}),
        ("(1,1.0)", "coordinates swapped", set()),
        ("1, 2", "coordinates swapped", set()),
        (r"\{1,2\}", "coordinates swapped", set()),
        ("(3,4]", "bracket", {"[3,4]", "(3,4)"}),
        (r"(-\infty,4]", "bracket", {r"(-\infty,4)"}),
        ("1,-2", "member dropped", {"1", "-2"}),
        ("(1,2)", "shape", {r"\{1, 2\}", "1, 2"}),
        ("y = 2x", "relation", {"y < 2x", r"y \ne  2x"}),
    ],
)  # fmt: skip
def test_one_thing_is_changed(reference: str, kind: str, wanted: set[str]) -> None:
    from benchmarks.answers.mutants import drafts

    assert {draft.answer for draft in drafts(reference, kind)} == wanted


def test_other_units_are_other_units() -> None:
    from benchmarks.answers.mutants import with_other_unit

    units = [with_other_unit(r"90^\circ", random.Random(seed)) for seed in range(40)]
    assert {pair and pair.answer for pair in units} == {
        r"90\%", r"90\text{ radians}", r"90\text{ cm}"
    }  # fmt: skip
    own = with_other_unit(r"5.4 \text{ cents}", random.Random(0))
    assert own
    assert own.reference == r"5.4 \text{ cents}"
    assert own.answer in (r"5.4" + unit for unit in STRANGE)
    assert with_other_unit(r"\text{even}", random.Random(0)) is None


@pytest.mark.parametrize(
    ("rule", "reference", "wanted"),
    [
        ("decimal", "(\\frac{3}{4}, 1)", {"(0.75, 1)"}),
        ("fraction", "-1.25", {r"-\frac{5}{4}"}),
        ("mixed number", r"\frac{14}{3}", {r"4\frac{2}{3}"}),
        ("members reordered", "1, 2", {"1, 2", "2, 1"}),
        ("members reordered", "(1, 2)", {"(1, 2)"}),
        ("terms reordered", "6 - 5i", {"6-5i", "-5i+6"}),
        ("both signs", r"1 \pm \sqrt{19}", {r"1 +\sqrt{19}, 1 -\sqrt{19}"}),
        ("inequality", r"(3,4]", {r"3 < x \leq 4"}),
        ("inequality", "(3,4)", {"(3,4)"}),
        ("into the root", r"3\sqrt{13}", {r"\sqrt{117}"}),
        ("power of ten", "850,000", {r"8.5 \times 10^{5}", r"8.5 \cdot 10^{5}"}),
        ("thousands", "10,080", {"10,080", "10{,}080", r"10\,080", r"10,\!080", "10080"}),
        ("thousands", "215, 308", {"215, 308"}),
    ],
)
def test_forms_by_hand(rule: str, reference: str, wanted: set[str]) -> None:
    from benchmarks.answers.forms import FORMS

    assert {FORMS[rule](reference, random.Random(seed)) for seed in range(40)} == wanted


def test_some_hundred_changed_and_rewritten_references() -> None:
    mutants, rewrites = made(300, seed=5)
    assert len({pair[1:] for pair in mutants.wrong}) == 300
    assert len({pair.kind.split(", ")[0] for pair in mutants.wrong}) >= 20
    assert [pair for pair in mutants.wrong if judge(pair.answer, pair.reference)] == []
    assert [pair for pair in rewrites if not judge(pair.answer, pair.reference)] == []
    assert made(20, seed=5) == made(20, seed=5)
    # What sympy found to be equal is so for the judge as well.
    assert [pair for pair in mutants.equal if not judge(pair.answer, pair.reference)] == []


def test_shares_of_responses() -> None:
    from benchmarks.answers.responses import HOSTILE, make_responses

    mutants, rewrites = made(40, seed=6)
    responses = make_responses(rewrites, mutants.wrong, 2000)
    kinds = Counter(one.kind for one in responses)
    hostile = sum(kinds.pop(kind) for kind in HOSTILE)
    assert kinds == {"right": 1200, "wrong": 600, "degenerate": 100, "hanging": HANGS}
    assert hostile == 100 - HANGS
    assert [one.wanted for one in responses if one.kind == "right"] == [1.0] * 1200
    assert max(len(one.completion) for one in responses) > 100_000


def test_two_hundred_responses_with_one_that_hangs() -> None:
    from benchmarks.answer_judging import stressed
    from benchmarks.answers.responses import make_responses

    mutants, rewrites = made(60, seed=7)
    responses = make_responses(rewrites, mutants.wrong, 200, hangs=1, seed=1)
    reward = MathReward(limits=Limits(seconds=5.0), workers=1)
    stress = stressed(reward, responses)
    assert stress.missed == []
    assert (stress.row.answers, stress.row.misjudged) == (200, 0)
    assert reward.counts["errors"] == 0
    # A busy machine may add timeouts, never take one away.
    assert reward.counts["timeouts"] >= 1


@pytest.mark.slow
def test_every_benchmark_file(data: Path) -> None:
    from benchmarks.answer_judging import judged, read_inputs
    from benchmarks.answers.references import itself, next_rows

    inputs = read_inputs(data)
    assert [len(rows) for rows in inputs.files.values()] == [7473, 1319, 500, 30, 40]
    reward = MathReward(limits=Limits(seconds=60.0))
    for rows in inputs.columns.values():
        assert judged(reward, "itself", itself(rows), 1.0, 0.0)[1] == []
    others = [pair for rows in inputs.files.values() for pair in next_rows(rows)]
    assert len(others) > 9000
    missed = judged(reward, "next", others, 0.0, 0.0)[1]
    # The same number in both rows.
    assert [(pair.reference, pair.answer) for pair in missed] == [("5", "x=5")]


@pytest.mark.slow
def test_five_thousand_changed_references(data: Path) -> None:
    from benchmarks.answer_judging import read_inputs
    from benchmarks.answers.mutants import KINDS, make_mutants

    inputs = read_inputs(data)
    mutants = make_mutants(inputs.shaped, inputs.plain, 5000)
    assert len(mutants.wrong) == 5000
    assert {pair.kind.split(", ")[0] for pair in mutants.wrong} == set(KINDS)
    # sympy is not asked in vain: few are unknown to it, and few are equal.
    assert mutants.undecided < 150
    assert len(mutants.equal) < 50
    assert [pair for pair in mutants.wrong if judge(pair.answer, pair.reference)] == []


@pytest.mark.slow
def test_two_thousand_rewritten_references(data: Path) -> None:
    from benchmarks.answer_judging import read_inputs
    from benchmarks.answers.forms import FORMS
    from benchmarks.answers.rewrites import make_rewrites
    from benchmarks.answers.spellings import SPELLINGS

    inputs = read_inputs(data)
    rewrites = make_rewrites([*inputs.shaped, *inputs.shaped, *inputs.plain[::8]], 2000)
    assert len(set(rewrites)) == 2000
    rules = {name for pair in rewrites for name in pair.kind.split(", ")}
    assert rules == {"unit", *FORMS, *SPELLINGS}
    assert [pair for pair in rewrites if not judge(pair.answer, pair.reference)] == []


@pytest.mark.slow
def test_ten_thousand_responses(data: Path) -> None:
    from benchmarks.answer_judging import read_inputs, stressed
    from benchmarks.answers.mutants import make_mutants
    from benchmarks.answers.responses import make_responses
    from benchmarks.answers.rewrites import make_rewrites

    inputs = read_inputs(data)
    wrong = make_mutants(inputs.shaped, inputs.plain, 500).wrong
    responses = make_responses(make_rewrites(inputs.shaped, 500), wrong, 10_000)
    # Twice the two seconds: a busy machine must not time out what is honest.
    reward = MathReward(limits=Limits(seconds=4.0), workers=2)
    stress = stressed(reward, responses)
    assert stress.missed == []
    assert reward.counts["errors"] == 0
    assert reward.counts["timeouts"] >= HANGS
    # Flat: workers come and go, so from step to step it moves, but it does not grow.
    assert max(stress.memory[5:]) < 1.25 * max(stress.memory[:5])


def test_memory_of_a_family() -> None:
    from benchmarks.answers.memory import family_mb

    if not Path("/proc/self/statm").exists():
        pytest.skip("there is no /proc")
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert match
    assert family_mb() > 0.8 * int(match[1]) / 1024

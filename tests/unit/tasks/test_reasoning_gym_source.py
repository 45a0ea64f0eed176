from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from typing import Any

import numpy
import pytest

from gtpo_lit.tasks import (
    ChainSource,
    ReasoningGymReward,
    ReasoningGymSource,
    WeightedReward,
    overlap,
)
from gtpo_lit.tasks.split import split_of

pytest.importorskip("reasoning_gym")
ONE_DIGIT = {"min_digits": 1, "max_digits": 1, "max_terms": 3}


def test_chain_sum_asks_and_answers() -> None:
    source = ReasoningGymSource("chain_sum", size=20, config=ONE_DIGIT)
    for index in range(len(source)):
        problem = source.problem(index)
        prefix, expression = problem.question.rstrip(" =").split(": ")
        assert prefix == "State the final answer to the following arithmetic problem"
        assert int(problem.answer) == eval(expression)
        assert problem.id == f"chain_sum/train/{index}"
        assert problem.source == source.name == "chain_sum"


def test_splits_never_meet_and_validation_is_distinct() -> None:
    train = ReasoningGymSource("chain_sum", size=300, seed=1, config=ONE_DIGIT)
    validation = ReasoningGymSource("chain_sum", "validation", size=60, seed=2, config=ONE_DIGIT)
    assert overlap(train, validation) == []
    questions = [validation.problem(index).question for index in range(60)]
    assert len(set(questions)) == 60
    assert {split_of(question) for question in questions} == {"validation"}
    assert [validation.problem(index).id for index in (0, 59)] == [
        "chain_sum/validation/0",
        "chain_sum/validation/59",
    ]


def test_problem_is_a_pure_function_of_seed_and_index() -> None:
    forward = [ReasoningGymSource("gcd", size=30, seed=3).problem(i) for i in range(30)]
    source = ReasoningGymSource("gcd", size=30, seed=3)
    assert [source.problem(i) for i in reversed(range(30))] == forward[::-1]
    other = ReasoningGymSource("gcd", size=30, seed=4)
    assert not {p.question for p in forward} & {other.problem(i).question for i in range(30)}


# Both draw from the global streams while they make a problem.
@pytest.mark.parametrize("task", ["list_functions", "pool_matrix"])
def test_global_streams_neither_decide_nor_move(task: str) -> None:
    rows = []
    for state in (1, 2):
        random.seed(state)
        numpy.random.seed(state)
        python_before, numpy_before = random.getstate(), numpy.random.get_state()
        source = ReasoningGymSource(task, size=30)
        rows.append([source.problem(index).question for index in range(30)])
        ReasoningGymReward().grade(["<answer>1</answer>"], [source.problem(0)])
        assert random.getstate() == python_before
        numpy.testing.assert_equal(numpy.random.get_state(), numpy_before)
    assert rows[0] == rows[1]


def test_other_processes_draw_the_same_problems() -> None:
    code = (
        "from gtpo_lit.tasks import ReasoningGymSource as S\n"
        "print([S('chain_sum', size=9).problem(i).question for i in (8, 0)])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "17", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    source = ReasoningGymSource("chain_sum", size=9)
    assert result.stdout.strip() == str([source.problem(index).question for index in (8, 0)])


def test_tasks_that_follow_set_order_want_a_fixed_hash_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    with pytest.raises(ValueError, match="'ransom_note' gives other problems .*PYTHONHASHSEED=0"):
        ReasoningGymSource("ransom_note", size=1)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert ReasoningGymSource("ransom_note", size=1).problem(0).answer in ("True", "False")


def test_small_tasks_run_out_with_the_number_there_is() -> None:
    # Sums of two one-digit numbers with a sign: at most 200 texts, a tenth for validation.
    config = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
    with pytest.raises(ValueError, match=r"only \d+ distinct validation problems") as caught:
        ReasoningGymSource("chain_sum", "validation", size=100, config=config)
    available = int(str(caught.value).split("only ")[1].split()[0])
    texts = {f"{a} {sign} {b}" for a in range(10) for b in range(10) for sign in "+-"}
    ask = "State the final answer to the following arithmetic problem: {} ="
    assert available == sum(split_of(ask.format(text)) == "validation" for text in texts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "chain_sums"}, "unknown reasoning-gym task 'chain_sums'; did you mean chain_sum"),
        ({"task": "gcd", "config": {"min_number": 1}}, "unknown option 'min_number'; did you mean"),
        ({"task": "gcd", "config": {"seed": 1}}, "config of 'gcd': set seed on the source"),
        ({"task": "gcd", "config": {"min_value": -5}}, "config of 'gcd' with size=.*min_value"),
        ({"task": "gcd", "size": 0}, "size must be at least 1, got 0"),
        ({"task": "gcd", "split": "test"}, "got 'test'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReasoningGymSource(**options)


def test_missing_package_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "reasoning_gym"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ModuleNotFoundError, match="pip install reasoning-gym"):
        ReasoningGymSource("chain_sum")


def test_scorer_binary_and_partial() -> None:
    problem = ReasoningGymSource("chain_sum", size=1, config=ONE_DIGIT).problem(0)
    right, tail = (
        f"<answer> {problem.answer} </answer>",
        f"<answer>{problem.answer} apples</answer>",
    )
    completions = [right, tail, problem.answer, "<answer>none</answer>", f"<think>{right}"]
    assert ReasoningGymReward().grade(completions, [problem] * 5) == [1.0, 0.0, 0.0, 0.0, 0.0]
    whole = ReasoningGymReward(extract="whole")
    assert whole.grade([problem.answer, "?"], [problem] * 2) == [1.0, 0.0]


def test_scorer_keeps_partial_credit_if_asked() -> None:
    # letter_counting has the package's plain scorer: the answer's share of the response's length.
    problem = ReasoningGymSource("letter_counting", size=1).problem(0)
    completion = problem.answer + "x" * (3 * len(problem.answer))
    for binary, score in ((True, 0.0), (False, 0.25)):
        reward = ReasoningGymReward(binary=binary, extract="whole")
        assert reward.grade([completion], [problem]) == [score]


def test_scorer_without_a_single_answer() -> None:
    problem = ReasoningGymSource(
        "graph_color", size=1, config={"min_num_vertices": 3, "max_num_vertices": 3}
    ).problem(0)
    assert problem.answer == ""
    puzzle = problem.metadata["entry"]["metadata"]["puzzle"]
    assert puzzle["color_options"] == [1, 2, 3]  # enough to give each vertex its own
    coloring = json.dumps({str(v): i + 1 for i, v in enumerate(puzzle["vertices"])})
    reward = ReasoningGymReward(extract="whole")
    assert reward.grade([coloring, "", "{}"], [problem] * 3) == [1.0, 0.0, 0.0]


def test_answer_that_breaks_the_scorer_is_wrong() -> None:
    prime = ReasoningGymSource("prime_factorization", size=1).problem(0)
    assert ReasoningGymReward(extract="whole").grade(["2 x garbage ("], [prime]) == [0.0]
    matrix = ReasoningGymSource("binary_matrix", size=1).problem(0)  # its scorer evaluates Python
    assert ReasoningGymReward(extract="whole").grade(["exit()"], [matrix]) == [0.0]


def test_problems_and_rewards_survive_pickle() -> None:
    problem = ReasoningGymSource("chain_sum", size=1, config=ONE_DIGIT).problem(0)
    reward = WeightedReward(ReasoningGymReward(extract="whole"))
    problem2, reward2 = pickle.loads(pickle.dumps((problem, reward)))
    assert problem2 == problem
    assert reward2.grade([problem.answer], [problem2]).correct == (True,)
    assert json.loads(json.dumps(problem.metadata))["task"] == "chain_sum"


def test_reward_refuses_other_problems() -> None:
    with pytest.raises(ValueError, match="problem 'chains/train/0' comes from 'chains'"):
        ReasoningGymReward().grade(["4"], [ChainSource(size=1).problem(0)])
    with pytest.raises(ValueError, match="call grade"):
        ReasoningGymReward().score(["4"], ["4"])


@pytest.mark.slow
def test_every_task_gives_problems_that_its_scorer_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    from reasoning_gym.factory import DATASETS

    monkeypatch.setenv("PYTHONHASHSEED", "0")  # only read by the check
    reward = ReasoningGymReward(extract="whole")
    refused = set()
    for task in sorted(set(DATASETS) - {"composite"}):  # that one is a mixture of others
        problem = ReasoningGymSource(task, size=1).problem(0)
        pickle.dumps(problem)
        json.dumps(dict(problem.metadata))
        if reward.grade([problem.answer], [problem]) != [1.0]:
            refused.add(task)
    # These keep no reference answer, since many are right.
    assert refused == {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}

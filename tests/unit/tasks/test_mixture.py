from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.tasks import MixtureSource, ProblemSource
from gtpo_lit.tasks.mixture import interleave, share_out
from gtpo_lit.types import Problem


class Numbers(ProblemSource):
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size

    def __len__(self) -> int:
        return self.size

    def problem(self, index: int) -> Problem:
        self.check_index(index)
        return Problem(id=f"{self.name}/{index}", question=str(index), answer="", source=self.name)

    def note(self) -> str:
        return f"{self.size} read"


def ids(source):
    return [source.problem(index).id for index in range(len(source))]


def test_without_weights_every_row_is_used_once():
    mixture = MixtureSource({"a": Numbers("a", 3), "b": Numbers("b", 9)})
    assert sorted(ids(mixture)) == sorted(
        [*(f"a/{n}" for n in range(3)), *(f"b/{n}" for n in range(9))]
    )
    # Evenly spread: each quarter holds one of "a".
    assert [
        name.count("a")
        for name in ("".join(i[0] for i in ids(mixture))[at : at + 4] for at in (0, 4, 8))
    ] == [1, 1, 1]


def test_a_small_set_repeats_and_a_large_one_is_cut():
    mixture = MixtureSource(
        {"a": Numbers("a", 2), "b": Numbers("b", 100)}, {"a": 1, "b": 1}, size=10
    )
    counts = Counter(ids(mixture))
    assert (counts["a/0"], counts["a/1"]) in [(3, 2), (2, 3)]
    assert sum(count for name, count in counts.items() if name[0] == "b") == 5
    assert max(count for name, count in counts.items() if name[0] == "b") == 1
    assert mixture.note() == (
        "a: 5 places for 2 problems (2 read); b: 5 places for 100 problems (100 read)"
    )


def test_the_seed_decides_and_nothing_else():
    def build(seed):
        return MixtureSource({"a": Numbers("a", 5), "b": Numbers("b", 7)}, seed=seed)

    assert ids(build(0)) == ids(build(0))
    assert ids(build(0)) != ids(build(1))
    assert sorted(ids(build(0))) == sorted(ids(build(1)))


def test_problems_keep_their_source_and_index_is_checked():
    mixture = MixtureSource({"x": Numbers("a", 1)}, name="mine")
    assert mixture.problem(0) == Problem(id="a/0", question="0", answer="", source="a")
    with pytest.raises(IndexError, match="mine has problems 0 to 0, not 1"):
        mixture.problem(1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": {}}, "at least one set"),
        ({"weights": {"a": 1}}, "weights: must be for the sets a, b, got a"),
        ({"weights": {"a": 1, "b": 0}}, "weights: 'b' must be positive, got 0"),
        ({"weights": {"a": 1, "b": float("nan")}}, "weights: 'b' must be positive, got nan"),
        ({"weights": {"a": 1, "b": float("inf")}}, "weights: 'b' must be positive, got inf"),
        ({"size": 0}, "size must be at least 1, got 0"),
        ({"sources": {"a": Numbers("n", 1), "b": Numbers("n", 1)}}, "the name 'n'"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        MixtureSource(**{"sources": {"a": Numbers("a", 2), "b": Numbers("b", 2)}, **options})


def test_a_set_without_a_place_is_an_error():
    mixture = MixtureSource({"a": Numbers("a", 2), "b": Numbers("b", 2)}, {"a": 1, "b": 99}, size=3)
    with pytest.raises(ValueError, match="weights: 'a' gets none of 3 places"):
        len(mixture)


SHARES = st.dictionaries(st.sampled_from("abcde"), st.floats(0.01, 100), min_size=1)


@given(st.integers(1, 200), SHARES)
def test_shares_add_up_and_are_within_one_of_the_exact(size, weights):
    counts = share_out(size, weights)
    assert sum(counts.values()) == size
    total = sum(weights.values())
    for name, weight in weights.items():
        assert abs(counts[name] - size * weight / total) < 1 + 1e-9


def test_places_are_spread_evenly():
    assert "".join(interleave({"a": 1, "b": 2, "c": 4})) == "cbcacbc"

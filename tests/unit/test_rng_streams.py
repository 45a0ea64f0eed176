"""After a restore every global stream gives what it would have given without."""

import random
import warnings

import numpy as np
import pytest
import torch

from gtpo_lit.rng_streams import restore_rank, restore_rng_state, rng_state


@pytest.fixture(autouse=True)
def streams():
    """Other tests find the streams as they were."""
    before = rng_state()
    yield
    restore_rng_state(before)


def seed(number: int) -> None:
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)


def draws() -> list[float]:
    """Three from every stream; an odd number of normal ones, which come in pairs."""
    return [
        *torch.randn(3).tolist(),
        *np.random.normal(size=3).tolist(),
        *np.random.uniform(size=3).tolist(),
        *(random.gauss(0, 1) for _ in range(3)),
        *(random.random() for _ in range(3)),
    ]


def test_the_next_draws_are_the_same_after_a_restore():
    seed(1)
    draws()
    state = rng_state()
    wanted = draws()
    seed(2)
    draws()
    restore_rng_state(state)
    assert draws() == wanted
    assert len({*wanted}) == 15
    # The state itself is not used up, and can be restored once more.
    restore_rng_state(state)
    assert draws() == wanted


def test_the_second_of_a_pair_of_normal_numbers_is_kept():
    seed(3)
    np.random.normal(), random.gauss(0, 1)
    state = rng_state()
    wanted = (np.random.normal(), random.gauss(0, 1))
    assert state["numpy"][3] == 1
    assert state["python"][2] is not None
    seed(4)
    restore_rng_state(state)
    assert (np.random.normal(), random.gauss(0, 1)) == wanted


def test_taking_the_state_draws_nothing():
    seed(5)
    wanted = draws()
    seed(5)
    rng_state()
    assert draws() == wanted


def test_it_goes_through_a_file_that_is_read_without_pickled_code(tmp_path):
    seed(6)
    draws()
    torch.save({"rng": [rng_state()]}, tmp_path / "state.ckpt")
    wanted = draws()
    seed(7)
    loaded = torch.load(tmp_path / "state.ckpt", weights_only=True)["rng"][0]
    assert set(loaded) - {"cuda"} == {"torch", "numpy", "python"}
    restore_rng_state(loaded)
    assert draws() == wanted


def test_it_goes_through_a_file_of_lists():
    """A format without tuples is no hindrance."""
    seed(8)
    state = rng_state()
    wanted = draws()
    version, inner, gauss_next = state["python"]
    restore_rng_state(
        {**state, "numpy": [*state["numpy"]], "python": [version, [*inner], gauss_next]}
    )
    assert draws() == wanted


def test_every_rank_gets_its_own():
    states, wanted = [], []
    for number in range(3):
        seed(number)
        states.append(rng_state())
        wanted.append(draws())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rank in (2, 0, 1):
            restore_rank(states, rank=rank, ranks=3)
            assert draws() == wanted[rank]


@pytest.mark.parametrize(("written", "now"), [(1, 2), (4, 2), (0, 1)])
def test_another_number_of_ranks_is_said_and_leaves_the_streams_alone(written, now):
    seed(9)
    states = [rng_state()] * written
    seed(10)
    wanted = draws()
    seed(10)
    message = rf"written by {written} rank\(s\), and {now} go on.*random streams begin anew"
    with pytest.warns(UserWarning, match=message):
        restore_rank(states, rank=0, ranks=now)
    assert draws() == wanted

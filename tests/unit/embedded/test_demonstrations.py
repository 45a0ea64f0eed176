"""The two strategies are mixed as the options say, by the given random stream alone."""

from __future__ import annotations

import random

import pytest

from gtpo_lit.embedded.demonstrations import Mixture, is_stepwise

QUESTION = "3+4+8+1+9="


def draw(mixture: Mixture, count: int, *, seed: int = 0, question: str = QUESTION) -> list[str]:
    generator = random.Random(seed)
    return [mixture.response(question, generator) for _ in range(count)]


def test_same_stream_gives_the_same_responses():
    mixture = Mixture()
    assert draw(mixture, 200, seed=5) == draw(mixture, 200, seed=5)
    assert draw(mixture, 200, seed=5) != draw(mixture, 200, seed=6)


def test_global_random_stream_is_left_alone():
    random.seed(1)
    expected = random.random()
    random.seed(1)
    draw(Mixture(), 50)
    assert random.random() == expected


def test_running_sums_without_slips():
    mixture = Mixture(direct_share=0, slip_rate=0)
    assert draw(mixture, 3) == ["3+4=7;7+8=5;5+1=6;6+9=5"] * 3
    assert draw(mixture, 1, question="9+9=") == ["9+9=8"]


def test_share_of_strategies():
    responses = draw(Mixture(), 20_000)
    direct = [response for response in responses if not is_stepwise(response)]
    # Standard deviation of the share: sqrt(0.7 * 0.3 / 20000) = 0.0032.
    assert len(direct) / len(responses) == pytest.approx(0.7, abs=0.013)
    assert {len(response) for response in direct} == {1}


def test_direct_answers_are_right_by_chance():
    responses = draw(Mixture(direct_share=1), 20_000)
    for digit in "0123456789":
        # Standard deviation: sqrt(0.1 * 0.9 / 20000) = 0.0021.
        assert responses.count(digit) / len(responses) == pytest.approx(0.1, abs=0.009)


def test_slip_rate_of_a_step_and_what_follows_it():
    slips = steps = 0
    for response in draw(Mixture(direct_share=0, slip_rate=0.03), 5_000):
        parts = response.split(";")
        assert len(parts) == 4
        running = 3
        for part, digit in zip(parts, (4, 8, 1, 9), strict=True):
            left, total = part.split("=")
            # A step starts from the sum that was written, right or wrong.
            assert left == f"{running}+{digit}"
            slips += int(total) != (running + digit) % 10
            steps += 1
            running = int(total)
    # Standard deviation: sqrt(0.03 * 0.97 / 20000) = 0.0012.
    assert slips / steps == pytest.approx(0.03, abs=0.005)


def test_certain_slip_is_always_wrong():
    totals = {
        response[-1]
        for response in draw(Mixture(direct_share=0, slip_rate=1), 500, question="3+4=")
    }
    assert totals == set("012345689")


def test_modulus():
    mixture = Mixture(direct_share=0, slip_rate=0, modulus=7)
    assert draw(mixture, 1, question="6+6+9=") == ["6+6=5;5+9=0"]
    assert set(draw(Mixture(direct_share=1, modulus=3), 200)) == {"0", "1", "2"}


@pytest.mark.parametrize("option", ["direct_share", "slip_rate"])
@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_not_a_probability(option, value):
    with pytest.raises(ValueError, match=f"{option}.*{value}"):
        Mixture(**{option: value})

"""Figures of an algorithm's credit, by hand and against plain loops."""

import dataclasses
import runpy
from pathlib import Path

import numpy
import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GTPO, Algorithm
from gtpo_lit.offline_credit import credit_under, extreme_tokens
from gtpo_lit.offline_credit.correlation import correlation

made = runpy.run_path(str(Path(__file__).parents[1] / "recorded" / "made_step.py"))


class Given(Algorithm):
    """Credits tokens with what it is given."""

    uses_entropy = False

    def __init__(self, values):
        super().__init__()
        self.values = values

    def advantages(self, rollouts):
        return torch.where(rollouts.mask, self.values, 0.0)


def test_figures_by_hand():
    # Written tokens a row: 3, 3, 2, 4. GRPO gives rows 0 and 3 more than 0, rows 1 and 2 less.
    step = made["make_step"](DAPO())
    entropy = torch.tensor(
        [[9.0, 1.0, 1.0, 0.0], [1.0, 8.0, 0.0, 1.0], [7.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    )
    step = dataclasses.replace(step, rollouts=step.rollouts.replace(entropy=entropy))
    values = torch.tensor(
        [
            [1.0, -2.0, 0.0, 5.0],
            [-1.0, 1.0, 5.0, -1.0],
            [-3.0, 0.0, 5.0, 5.0],
            [1.0, 1.0, 1.0, -1.0],
        ]
    )
    figures = credit_under(step, Given(values)).figures
    assert figures["sign_flips"] == pytest.approx(3 / 12)
    assert figures["sign_flips_correct"] == pytest.approx(2 / 7)
    assert figures["sign_flips_wrong"] == pytest.approx(1 / 5)
    assert figures["no_credit"] == pytest.approx(2 / 12)
    assert figures["mean_size"] == pytest.approx(13 / 12)
    # The three tokens of highest entropy have 1, 1 and 3 of the 13.
    assert figures["pivotal_share"] == pytest.approx(5 / 13)
    assert figures["effective_sequences"] is None
    assert figures["shaped_fraction"] is None


@pytest.mark.parametrize("algorithm", [GTPO(alpha2=0.5), GRPOS(), GRPO()])
def test_the_correlation_is_numpy_s(algorithm):
    step = made["make_step"](algorithm)
    mask = step.rollouts.mask
    plain = DAPO().advantages(step.rollouts)[:, None].expand_as(mask)[mask]
    ours = credit_under(step, algorithm).figures["grpo_correlation"]
    theirs = numpy.corrcoef(step.token_advantages[mask].double(), plain.double())[0, 1]
    assert ours == pytest.approx(theirs, abs=1e-12)


def test_grpo_and_dapo_credit_alike():
    step = made["make_step"](GTPO())
    for algorithm in (GRPO(), DAPO()):
        figures = credit_under(step, algorithm).figures
        assert figures["grpo_correlation"] == pytest.approx(1.0)
        assert figures["sign_flips"] == 0.0


def test_what_a_shaping_algorithm_says_of_itself_is_taken_over():
    step = made["make_step"](GTPO(alpha2=0.5))
    credit = credit_under(step, GRPOS(beta2=0.5))
    own = GRPOS(beta2=0.5).diagnostics(credit.step.rollouts)
    assert credit.figures["effective_sequences"] == own["shaping/effective_sequences"]
    assert credit.figures["conservation_gap"] == own["shaping/conservation_gap"] < 1e-6
    assert credit.step.algorithm == "gtpo_lit.algorithms.grpo_s.GRPOS"
    assert credit.step.settings["beta2"] == 0.5
    assert credit.step.shaped.tolist() == pytest.approx([1.5, -1.5, -1.5, 1.6])
    assert credit.step.rollouts.advantages.ndim == 1


def test_a_step_without_entropies_serves_algorithms_that_read_none():
    step = made["make_step"](DAPO())
    nan = torch.full_like(step.rollouts.entropy, float("nan"))
    step = dataclasses.replace(step, rollouts=step.rollouts.replace(entropy=nan))
    assert credit_under(step, GRPO()).figures["pivotal_share"] is None
    with pytest.raises(ValueError, match="GTPO reads entropies, and the run recorded none"):
        credit_under(step, GTPO())


def test_constant_credit_has_no_correlation():
    assert correlation(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])) is None
    assert correlation(torch.ones(1), torch.ones(1)) is None
    assert correlation(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])) == -1.0


def test_extreme_tokens_with_ties_in_order():
    values = torch.tensor(
        [
            [1.0, -2.0, 0.0, 5.0],
            [-1.0, 4.0, 9.0, -1.0],
            [-3.0, 0.0, 5.0, 5.0],
            [1.0, 4.0, 1.0, -3.0],
        ]
    )
    step = credit_under(made["make_step"](DAPO()), Given(values)).step
    most, least = extreme_tokens(step, 3)
    assert [(t.advantage, t.problem, t.sample, t.place) for t in most] == [
        (4.0, "p/0", 1, 1),
        (4.0, "p/1", 1, 1),
        (1.0, "p/0", 0, 0),
    ]
    assert [(t.advantage, t.group, t.sample, t.place) for t in least] == [
        (-3.0, 9, 0, 0),
        (-3.0, 9, 1, 3),
        (-2.0, 4, 0, 1),
    ]
    assert (most[0].piece, least[2].piece) == (" b", "a")
    assert (most[0].correct, least[2].correct) == (False, True)
    assert most[0].entropy == float(step.rollouts.entropy[1, 1])


def test_extremes_of_whole_responses_stand_once_each():
    most, least = extreme_tokens(made["make_step"](GRPO()), 9)
    assert len(most) == len(least) == 4
    assert {(token.group, token.sample) for token in most} == {(4, 0), (4, 1), (9, 0), (9, 1)}
    assert all(token.place == 0 for token in most + least)
    assert [token.correct for token in most] == [True, True, False, False]

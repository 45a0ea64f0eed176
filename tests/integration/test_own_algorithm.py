"""A new idea is one file outside the package, and a `class_path`."""

import pytest

OWN = '''
from torch import Tensor

from gtpo_lit.algorithms import Algorithm
from gtpo_lit.types import Rollouts


class Bold(Algorithm):
    """Every correct answer gets `reward`, every wrong one nothing.

    Args:
        boldness: credit of a correct answer.
    """

    def __init__(self, boldness: float = 1.0) -> None:
        super().__init__()
        self.boldness = boldness

    def advantages(self, rollouts: Rollouts) -> Tensor:
        return self.boldness * rollouts.correct.float()
'''


def test_an_algorithm_outside_the_package_trains_by_class_path(runs, tmp_path, monkeypatch):
    (tmp_path / "own_idea.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    runs("--model.algorithm=own_idea.Bold", "--model.algorithm.boldness=0.5")
    first = runs.rows()[1]
    # On the first pass every ratio is 1, so the loss is minus the mean credit of a token.
    assert -0.5 <= float(first["train/loss"]) < 0
    assert float(first["train/gradient/norm"]) > 0
    assert float(first["train/groups/zero_variance_fraction"]) == pytest.approx(
        float(first["train/groups/all_correct_fraction"])
        + float(first["train/groups/all_wrong_fraction"])
    )

"""The first best value counts, in either direction, and NaN never does."""

import math
from types import SimpleNamespace

import pytest
import torch

from gtpo_lit.best_step import BestStep

METRIC = "val/chains/pass@1"


def trainer(step, value, *, fn="fit", sanity=False, broadcast=lambda value: value, **others):
    """Stands in RL step `step`, after a validation that logged `value`."""
    logged = {} if value is None else {METRIC: torch.tensor(value, dtype=torch.float64)}
    return SimpleNamespace(
        current_epoch=step - 1,
        state=SimpleNamespace(fn=fn),
        sanity_checking=sanity,
        callback_metrics={**logged, **others},
        strategy=SimpleNamespace(broadcast=broadcast),
    )


def follow(best: BestStep, values: list[float]) -> list[int | None]:
    """The best step after each of the steps 1, 2, ..."""
    steps = []
    for step, value in enumerate(values, start=1):
        best.look(trainer(step, value))
        steps.append(best.step)
    return steps


@pytest.mark.parametrize(
    ("mode", "steps", "value"), [("max", [1, 2, 2, 4, 4], 0.9), ("min", [1, 1, 3, 3, 3], 0.1)]
)
def test_more_or_less_is_better(mode, steps, value):
    best = BestStep(METRIC, mode)
    assert follow(best, [0.5, 0.7, 0.1, 0.9, 0.2]) == steps
    assert best.value == value


@pytest.mark.parametrize("mode", ["max", "min"])
def test_of_equal_values_the_first_counts(mode):
    assert follow(BestStep(METRIC, mode), [0.5, 0.5, 0.5]) == [1, 1, 1]


@pytest.mark.parametrize(("mode", "steps"), [("max", [None, 2, 2, 4]), ("min", [None, 2, 2, 2])])
def test_nan_is_never_the_best(mode, steps):
    nan = math.nan
    best = BestStep(METRIC, mode)
    assert follow(best, [nan, 0.3, nan, 0.4]) == steps


def test_infinities_are_compared_as_numbers():
    best = BestStep(METRIC)
    assert follow(best, [-math.inf, -5.0, math.inf, 1.0]) == [1, 2, 3, 3]


def test_the_validation_before_training_is_no_step():
    best = BestStep(METRIC)
    best.look(trainer(1, 0.9, sanity=True))
    assert best.step is None
    assert math.isnan(best.value)
    best.look(trainer(1, 0.1))
    assert (best.step, best.value) == (1, 0.1)


def test_only_a_fit_is_looked_at():
    best = BestStep(METRIC)
    best.look(trainer(3, None, fn="validate"))
    best.look(trainer(3, 0.5, fn="test"))
    assert best.step is None


def test_without_a_metric_nothing_is_compared():
    best = BestStep(None)
    best.look(trainer(1, None))
    assert best.step is None


@pytest.mark.parametrize("sanity", [True, False])
def test_a_metric_that_nobody_logs_is_named_at_the_first_validation(sanity):
    others = {"val/b/maj@4": 1.0, "train/loss": 1.0, "val/a/pass@1": 1.0}
    message = f"best_of = '{METRIC}' is none of val/a/pass@1, val/b/maj@4$"
    with pytest.raises(ValueError, match=message):
        BestStep(METRIC).look(trainer(1, None, sanity=sanity, **others))


def test_one_ranks_number_decides_for_all():
    best = BestStep(METRIC)
    best.look(trainer(1, 0.5, broadcast=lambda value: 0.25))
    best.look(trainer(2, 0.1, broadcast=lambda value: 0.5))
    assert (best.step, best.value) == (2, 0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("train/loss",), r"best_of must be a metric val/<set>/\.\.\., got 'train/loss'"),
        ((METRIC, "most"), "best_mode must be max or min, got 'most'"),
        ((None, ""), "best_mode must be max or min, got ''"),
    ],
)
def test_options_that_make_no_sense_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        BestStep(*options)


def test_what_to_beat_is_known_after_a_resume(tmp_path):
    best = BestStep(METRIC)
    follow(best, [0.2, 0.6])
    torch.save(best.state_dict(), tmp_path / "state.pt")
    again = BestStep(METRIC)
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert (again.step, again.value) == (2, 0.6)
    again.look(trainer(3, 0.5))
    assert again.step == 2
    again.look(trainer(4, 0.7))
    assert (again.step, again.value) == (4, 0.7)


@pytest.mark.parametrize("other", [("val/other/pass@1", "max"), (METRIC, "min"), (None, "max")])
def test_another_comparison_begins_anew(other):
    best = BestStep(METRIC)
    follow(best, [0.2, 0.6])
    again = BestStep(*other)
    again.load_state_dict(best.state_dict())
    assert again.step is None
    again.load_state_dict({})
    assert again.step is None


def test_a_resume_before_any_validation_knows_nothing():
    again = BestStep(METRIC)
    again.load_state_dict(BestStep(METRIC).state_dict())
    assert again.step is None
    again.look(trainer(1, 0.0))
    assert (again.step, again.value) == (1, 0.0)

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest
import torch

from callbacks import EntropyMonitor
from callbacks.entropy_monitor import entropy_means
from callbacks.response_length_monitor import length_statistics
from callbacks.step_rollouts import step_rollouts
from gtpo_lit.metrics_csv import read_rows
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def rollouts_of(mask, entropy, correct, truncated=None, loss_mask=None):
    mask = torch.tensor(mask, dtype=torch.bool)
    return small["make_rollouts"](0.0, 0).replace(
        mask=mask,
        loss_mask=mask if loss_mask is None else torch.tensor(loss_mask, dtype=torch.bool),
        entropy=torch.tensor(entropy),
        correct=torch.tensor(correct),
        truncated=torch.tensor(truncated or [False] * len(correct)),
    )


def test_entropy_is_a_token_mean_that_no_pad_enters() -> None:
    """Report B3: 10/6 by tokens; neither 2.5 with pads nor 1.5 by sequences."""
    batch = rollouts_of(
        [[1, 1, 0, 0], [1, 1, 1, 1]], [[1.0, 1.0, 5.0, 5.0], [2.0, 2.0, 2.0, 2.0]], [True, False]
    )
    values = entropy_means(batch)
    assert values["train/entropy/mean"] == pytest.approx(10 / 6, abs=1e-12)
    assert (values["train/entropy/correct"], values["train/entropy/wrong"]) == (1.0, 2.0)


def test_entropy_weighs_tokens_and_not_ranks() -> None:
    """Report B3: ten tokens at 1.0 on one rank, ninety at 2.0 on the other: 1.90, not 1.50."""
    mask = [[1] * 10 + [0] * 80, [1] * 90]
    batch = rollouts_of(mask, [[1.0] * 90, [2.0] * 90], [False, False])
    assert entropy_means(batch)["train/entropy/mean"] == pytest.approx(1.9, abs=1e-12)


def test_sides_without_a_token_are_left_out() -> None:
    """Report B3: a batch without a token logs nothing rather than NaN."""
    one = rollouts_of([[1, 0], [0, 0]], [[0.5, 9.0], [9.0, 9.0]], [False, True])
    assert entropy_means(one) == {"train/entropy/mean": 0.5, "train/entropy/wrong": 0.5}
    none = rollouts_of([[0, 0]], [[float("nan"), 9.0]], [True])
    assert entropy_means(none) == {}
    assert length_statistics(none) == {}


def test_the_spread_of_the_entropies_by_hand() -> None:
    batch = rollouts_of(
        [[1, 1, 1, 1], [1, 1, 0, 0]], [[1.0, 2.0, 3.0, 6.0], [4.0, 8.0, 99.0, 99.0]], [True, False]
    )
    assert EntropyMonitor().spread(batch) == {
        # Sorted: 1 2 3 4 6 8; places 0.5, 2.5 and 4.5.
        "train/entropy/q10": pytest.approx(1.5),
        "train/entropy/q50": pytest.approx(3.5),
        "train/entropy/q90": pytest.approx(7.0),
        "train/entropy/part_1": (1 + 4) / 2,
        "train/entropy/part_2": 2.0,
        "train/entropy/part_3": (3 + 8) / 2,
        "train/entropy/part_4": 6.0,
        # ceil(0.2 * 6) = 2 tokens: 8 and 6 of 24.
        "train/entropy/top_share": pytest.approx(14 / 24),
    }
    few = EntropyMonitor(quantiles=[0.05], parts=0, top=1.0).spread(batch)
    assert few == {"train/entropy/q5": pytest.approx(1.25), "train/entropy/top_share": 1.0}


def test_nan_entropies_are_seen_and_zeros_have_no_share() -> None:
    nan = float("nan")
    one = EntropyMonitor().spread(rollouts_of([[1, 1, 0]], [[nan, 2.0, 7.0]], [True]))
    assert all(math.isnan(one[f"train/entropy/{name}"]) for name in ("q10", "q90", "top_share"))
    assert math.isnan(one["train/entropy/part_1"])
    assert one["train/entropy/part_3"] == 2.0
    assert EntropyMonitor().spread(rollouts_of([[1, 1]], [[nan, nan]], [True])) == {}
    zero = EntropyMonitor().spread(rollouts_of([[1, 0]], [[0.0, 7.0]], [True]))
    assert zero == {f"train/entropy/{name}": 0.0 for name in ("q10", "q50", "q90", "part_1")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantiles": [0.125]}, "quantiles: 0.125"),
        ({"quantiles": [1.5]}, "quantiles: 1.5"),
        ({"parts": -1}, "parts .* got -1"),
        ({"top": 0.0}, "top .* got 0.0"),
    ],
)
def test_the_options_of_the_entropy_monitor_are_checked(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        EntropyMonitor(**options)


def test_lengths_ignore_the_loss_mask_and_filling_rows() -> None:
    batch = rollouts_of(
        [[1, 1, 0, 1], [1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]],
        [[0.0] * 4] * 4,
        [False] * 4,
        truncated=[False, True, False, False],
        loss_mask=[[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]],
    )
    assert length_statistics(batch) == {
        "train/length/mean": pytest.approx(8 / 3),
        "train/length/min": 1.0,
        "train/length/max": 4.0,
        "train/length/truncated_fraction": pytest.approx(1 / 3),
        "train/length/terminated_fraction": pytest.approx(2 / 3),
    }


def test_a_run_logs_each_step_and_leaves_missing_cells_empty(tmp_path: Path) -> None:
    trainer = small["run"](tmp_path, steps=3)
    rows = read_rows(find_run_logger(trainer).folder.metrics)
    # No sequence is right in the first step, so there is nothing to average.
    assert "train/entropy/correct" not in rows[1]
    assert {"train/entropy/correct", "train/entropy/wrong"} <= rows[2].keys()
    last = entropy_means(trainer.datamodule.rollouts)
    for name, value in {**last, **length_statistics(trainer.datamodule.rollouts)}.items():
        assert rows[3][name] == repr(value)
    assert "nan" not in {cell for row in rows.values() for cell in row.values()}


def test_a_datamodule_without_rollouts_is_named(tmp_path: Path) -> None:
    trainer = small["make_trainer"](tmp_path)
    with pytest.raises(ValueError, match="EntropyMonitor reads .* NoneType"):
        step_rollouts(trainer, EntropyMonitor.__name__)

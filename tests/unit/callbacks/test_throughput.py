from __future__ import annotations

import resource
import runpy
import sys
import time
from pathlib import Path

import pytest
import torch

from callbacks import Throughput
from callbacks.throughput import memory_peaks, speeds
from gtpo_lit.metrics_csv import read_metrics
from gtpo_lit.run_logger import find_run_logger

small = runpy.run_path(str(Path(__file__).parents[1] / "small_run.py"))


def test_speeds_and_shares_by_hand() -> None:
    # Nine response tokens; two prompt tokens in front of each of four sequences.
    rollouts = small["make_rollouts"](0.0, 0)
    prompt = torch.ones(4, 2, dtype=torch.bool)
    rollouts = rollouts.replace(attention_mask=torch.cat([prompt, rollouts.mask], dim=1))
    seconds = {"push": 0.5, "sampling": 3.0, "reward": 0.25, "scoring": 1.0, "training": 2.0}
    assert speeds(rollouts, seconds, 10.0, passes=3) == {
        "time/step_seconds": 10.0,
        "time/training_seconds": 2.0,
        "time/push_fraction": 0.05,
        "time/sampling_fraction": 0.3,
        "time/reward_fraction": 0.025,
        "time/scoring_fraction": 0.1,
        "time/training_fraction": 0.2,
        "time/other_fraction": pytest.approx(0.325),
        "time/tokens_per_second": 0.9,
        "time/sampling_tokens_per_second": 3.0,
        "time/scoring_tokens_per_second": 17.0,
        "time/training_tokens_per_second": 3 * 17 / 2,
    }


def test_what_was_not_measured_is_left_out() -> None:
    found = speeds(small["make_rollouts"](0.0, 0), {"training": 0.0, "sampling": 0.0}, 1.0)
    assert found["time/other_fraction"] == 1.0
    assert "time/sampling_tokens_per_second" not in found
    assert "time/training_tokens_per_second" not in found


def test_memory_is_the_kernels_figure() -> None:
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    found = memory_peaks(torch.device("cpu"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    assert before <= found["memory/cpu_peak_bytes"] <= after
    assert set(found) == {"memory/cpu_peak_bytes"}


def test_a_run_times_training_and_no_validation(tmp_path: Path, monkeypatch) -> None:
    module = small["SmallModule"]
    slow = 0.05
    plain = module.training_step

    def training_step(self, batch, batch_idx):
        time.sleep(slow)
        return plain(self, batch, batch_idx)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        time.sleep(2 * slow)

    monkeypatch.setattr(module, "training_step", training_step)
    monkeypatch.setattr(module, "validation_step", validation_step)
    trainer = small["make_trainer"](tmp_path, steps=2, extra=(Throughput(),))
    trainer.fit(module(), datamodule=small["SmallData"]())
    folder = find_run_logger(trainer).folder
    table = read_metrics(folder.timing)
    fractions = table["time/training_fraction"]
    for step, training, fraction in zip(
        table["time/step_seconds"], table["time/training_seconds"], fractions, strict=True
    ):
        # Two micro-batches a step; four batches of validation come after the second step.
        assert 2 * slow <= training <= step
        assert fraction == training / step
    assert table["memory/cpu_peak_bytes"][-1] > 1e7
    assert not [name for name in read_metrics(folder.path) if name.startswith(("time", "memory"))]


def test_the_clock_stops_before_validation() -> None:
    """By hand, since a busy machine is slow anywhere: hooks in Lightning's order."""
    now = iter([0.0, 3.0, 4.0, 6.0, 8.0])
    watch = Throughput()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("callbacks.throughput.time.perf_counter", lambda: next(now))
        module = torch.nn.Module()
        module.device = torch.device("cpu")
        trainer = type("Trainer", (), {"is_last_batch": False})()
        watch.on_train_epoch_start(trainer, module)
        watch.on_train_batch_start(trainer, module, None, 0)
        watch.on_train_batch_end(trainer, module, None, None, 0)
        watch.on_train_batch_start(trainer, module, None, 1)
        watch.on_train_batch_end(trainer, module, None, None, 1)
    assert (watch._training, watch._step) == ((4 - 3) + (8 - 6), 8.0)

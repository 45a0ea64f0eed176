"""Runs whose sampler's log-probs are not the policy's: what is logged, weighed and refused."""

import importlib
import math
import sys

import pytest

SHIFTED = '''
import dataclasses
import math

from gtpo_lit.algorithms import GRPO
from gtpo_lit.functional.surrogate import policy_loss
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.types import LossOutput

LENGTHS = []


class Shifted(TransformersSampler):
    """Reports log-probs that lie `even` and `odd` nats above the right ones, by position."""

    def __init__(self, even: float = 0.0, odd: float = 0.0, requests_per_batch: int = 2):
        super().__init__(requests_per_batch=requests_per_batch)
        self.gaps = (even, odd)

    def generate(self, requests, settings):
        rows = super().generate(requests, settings)
        LENGTHS.extend(len(item.token_ids) for row in rows for item in row)
        return [[self.change(item) for item in row] for row in rows]

    def change(self, item):
        values = (value + self.gaps[place % 2] for place, value in enumerate(item.logprobs))
        return dataclasses.replace(item, logprobs=tuple(values))


class Mute(Shifted):
    """Promises log-probs and reports none."""

    def change(self, item):
        return dataclasses.replace(item, logprobs=None)


class Silent(Mute):
    """Says from the start that it reports none."""

    reports_logprobs = False


class Deaf(GRPO):
    """Has its own loss, and leaves the correction out."""

    def loss(self, logp, entropy, batch):
        loss, metrics = policy_loss(
            logp, batch.logp_old, batch.advantages, batch.loss_mask, denominator=batch.denominator
        )
        return LossOutput(loss=loss, metrics=metrics)
'''


@pytest.fixture
def shifted(tmp_path, monkeypatch):
    (tmp_path / "shifted.py").write_text(SHIFTED)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("shifted")
    del sys.modules["shifted"]


def _first(runs, number=0):
    (row,) = runs.rows(number)
    return {name: float(value) for name, value in row.items() if value}


def _fit(runs, sampler, *options):
    quick = ("max_epochs=1", "num_sanity_val_steps=0", "limit_val_batches=0", "callbacks=null")
    runs(
        *(f"--trainer.{option}" for option in quick), f"--data.sampler=shifted.{sampler}", *options
    )


def test_a_constant_shift_is_logged_and_weighed_as_it_must_be(runs, shifted):
    """Every weight is exp(-1), so that first loss and gradient are exp(-1) of the plain ones."""
    one = ("--data.sampler.even=1", "--data.sampler.odd=1", "--trainer.gradient_clip_val=null")
    _fit(runs, "Shifted", *one)
    _fit(runs, "Shifted", *one, "--data.correction.level=token")
    plain, weighed = _first(runs, 0), _first(runs, 1)
    assert plain["train/sampler_gap/mean"] == pytest.approx(1, abs=1e-5)
    assert plain["train/sampler_gap/max"] == pytest.approx(1, abs=1e-5)
    assert plain["train/sampler_gap/kl_k1"] == pytest.approx(1, abs=1e-5)
    assert plain["train/sampler_gap/kl_k3"] == pytest.approx(math.exp(-1), abs=1e-5)
    assert plain["train/sampler_gap/effective_sample_size"] == pytest.approx(1, abs=1e-5)
    assert plain["train/sampler_gap/missing_fraction"] == 0
    assert not any(name.startswith("train/correction/") for name in plain)
    for name in ("weight_mean", "weight_min", "weight_max", "loss_weight"):
        found = weighed[f"train/correction/{name}"]
        assert found == pytest.approx(math.exp(-1), abs=1e-5)
    assert weighed["train/correction/cut_fraction"] == 0
    assert plain["train/gradient/norm"] > 0
    for name in ("train/loss", "train/gradient/norm"):
        assert weighed[name] == pytest.approx(math.exp(-1) * plain[name], rel=1e-4, abs=1e-7)
    for name in plain.keys() - {"train/loss", "train/gradient/norm"}:
        if name.startswith("train/"):
            assert weighed[name] == plain[name], name


@pytest.mark.parametrize(("bound", "cut"), [("truncate", 2.0), ("mask", 0.0)])
def test_a_shift_by_position_is_cut_where_it_passes_the_cap(runs, shifted, bound, cut):
    """Even positions have weight exp(-0.1), odd ones exp(0.9) = 2.46, beyond the cap."""
    _fit(
        runs,
        "Shifted",
        "--data.sampler.even=0.1",
        "--data.sampler.odd=-0.9",
        "--data.correction.level=token",
        f"--data.correction.bound={bound}",
    )
    lengths = shifted.LENGTHS
    assert len(lengths) == 16
    even = sum(math.ceil(length / 2) for length in lengths)
    odd = sum(length // 2 for length in lengths)
    total, light, heavy = even + odd, math.exp(-0.1), math.exp(0.9)
    wanted = {
        "sampler_gap/mean": (0.1 * even + 0.9 * odd) / total,
        "sampler_gap/max": 0.9,
        "sampler_gap/kl_k1": (0.1 * even - 0.9 * odd) / total,
        "sampler_gap/kl_k3": ((light - 0.9) * even + (heavy - 1.9) * odd) / total,
        "sampler_gap/effective_sample_size": (light * even + heavy * odd) ** 2
        / (total * (light**2 * even + heavy**2 * odd)),
        "correction/weight_mean": (light * even + cut * odd) / total,
        "correction/weight_min": min(light, cut),
        "correction/weight_max": max(light, cut),
        "correction/cut_fraction": odd / total,
        "correction/loss_weight": (light * even + cut * odd) / total,
        "correction/effective_sample_size": (light * even + cut * odd) ** 2
        / (total * (light**2 * even + cut**2 * odd)),
    }
    found = _first(runs)
    for name, value in wanted.items():
        assert found[f"train/{name}"] == pytest.approx(value, abs=1e-5), name


def test_whole_sequences_have_the_product_of_their_tokens(runs, shifted):
    """Each token adds -0.01, so that a sequence of n tokens has weight exp(-n / 100)."""
    _fit(
        runs,
        "Shifted",
        "--data.sampler.even=0.01",
        "--data.sampler.odd=0.01",
        "--data.correction.level=sequence",
    )
    weights = [math.exp(-length / 100) for length in shifted.LENGTHS]
    found = _first(runs)
    assert found["train/correction/weight_mean"] == pytest.approx(sum(weights) / 16, abs=1e-5)
    assert found["train/correction/weight_min"] == pytest.approx(min(weights), abs=1e-5)
    assert found["train/correction/weight_max"] == pytest.approx(max(weights), abs=1e-5)
    by_token = sum(w * n for w, n in zip(weights, shifted.LENGTHS, strict=True))
    wanted = by_token / sum(shifted.LENGTHS)
    assert found["train/correction/loss_weight"] == pytest.approx(wanted, abs=1e-5)


def test_missing_log_probs_are_a_warning_and_a_number(runs, shifted):
    with pytest.warns(UserWarning, match=r"Mute reported no log-prob for 100.0% of the step's"):
        _fit(runs, "Mute")
    found = _first(runs)
    assert found["train/sampler_gap/missing_fraction"] == 1
    assert "train/sampler_gap/mean" not in found


def test_a_correction_without_log_probs_stops_at_the_first_step(runs, shifted):
    with pytest.raises(ValueError, match=r"data.correction needs the log-probs .* Mute reported"):
        _fit(runs, "Mute", "--data.correction.level=token")


def test_a_sampler_that_says_so_is_refused_before_anything_is_written(runs, shifted, capsys):
    with pytest.raises(SystemExit) as stopped:
        _fit(runs, "Silent", "--data.correction.level=token")
    assert stopped.value.code == 2
    assert "data.sampler is Silent, which does not" in capsys.readouterr().err
    assert not runs.root.exists()


def test_a_loss_that_leaves_the_correction_out_is_refused(runs, shifted):
    algorithm = "--model.algorithm=shifted.Deaf"
    _fit(runs, "Shifted", algorithm)
    with pytest.raises(ValueError, match=r"data.correction is on, but Deaf.loss leaves"):
        _fit(runs, "Shifted", algorithm, "--data.correction.level=token")


@pytest.mark.slow
def test_two_ranks_weigh_as_one(runs, shifted, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    common = (
        "--data.sampler=shifted.Shifted",
        "--data.sampler.even=0.1",
        "--data.sampler.odd=-0.9",
        "--data.correction.level=token",
        "--trainer.callbacks=null",
    )
    ddp = ("--data.micro_batches=2", "--config=configs/strategy/ddp.yaml")
    for name, extra in (("one", ()), ("two", ddp)):
        done = runs.apart(f"--run.name={name}", *common, *extra)
        assert done.returncode == 0, done.stderr[-2000:]
    ours, theirs = runs.rows(name="one")[-1], runs.rows(name="two")[-1]
    assert 0.1 < float(ours["train/correction/cut_fraction"]) < 0.6
    for name, value in ours.items():
        if name.startswith(("train/sampler_gap/", "train/correction/", "train/loss")):
            assert float(theirs[name]) == pytest.approx(float(value), rel=1e-4, abs=1e-5), name

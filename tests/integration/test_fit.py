"""A fit from config to run folder, repeated and resumed."""

import json

import pytest
import torch
import yaml

from gtpo_lit.policy import CausalPolicy


def test_a_fit_leaves_a_whole_run_folder(runs, capsys):
    runs()
    folder = runs.version()
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "config.yaml",
        "metrics.csv",
        "timing.csv",
        "checkpoints",
        "curves.png",
        "summary.json",
        "tensorboard",
    }
    assert [path.name for path in sorted((folder / "checkpoints").iterdir())] == [
        "step=0001.ckpt",
        "step=0002.ckpt",
    ]
    rows = runs.rows()
    assert [row["step"] for row in rows] == ["0", "1", "2"]
    assert rows[0]["train/reward/mean"] == ""
    assert float(rows[1]["train/ratio/mean"]) == pytest.approx(1.0, abs=1e-4)
    assert float(rows[1]["train/shaping/conservation_gap"]) < 1e-4
    assert float(rows[1]["train/sampler_gap/max"]) < 1e-4
    assert all("time/" not in name for name in rows[0])
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["finished"] is True
    assert summary["rl_steps"] == summary["optimiser_steps"] == 2
    before, after = (summary["val"][when]["val/chains/pass@1"] for when in ("before", "after"))
    assert float(rows[0]["val/chains/pass@1"]) == pytest.approx(before)
    assert float(rows[2]["val/chains/pass@1"]) == pytest.approx(after)
    last = capsys.readouterr().out.rstrip().splitlines()[-1]
    assert last == f"val/chains/pass@1: {before:.4f} -> {after:.4f}"


def test_the_same_seed_gives_the_same_metrics_to_the_last_digit(runs):
    runs()
    runs()
    assert runs.metrics(0) == runs.metrics(1)
    runs("--seed_everything=1")
    assert runs.metrics(2) != runs.metrics(0)


def test_a_resume_from_any_step_repeats_the_uninterrupted_run(runs):
    """Reports E1 and E5: data, sampling, optimiser and counters go on where they stopped."""
    options = ("--trainer.max_epochs=4", "--trainer.check_val_every_n_epoch=2")
    keep = "--trainer.callbacks+=gtpo_lit.run_checkpoint.RunCheckpoint"
    runs(*options, keep, "--trainer.callbacks.every_n_epochs=1")
    before = json.loads(runs.version(0).joinpath("summary.json").read_text())["val"]
    for number, step in enumerate((1, 2, 3), start=1):
        checkpoint = runs.version(0) / "checkpoints" / f"step={step:04d}.ckpt"
        runs(*options, f"--ckpt_path={checkpoint}")
        assert runs.metrics(number) == runs.metrics(0), f"resumed from step {step}"
        assert (
            json.loads(runs.version(number).joinpath("summary.json").read_text())["val"] == before
        )
    last = [
        torch.load(runs.version(n) / "checkpoints/step=0004.ckpt", weights_only=True)
        for n in (0, 3)
    ]
    for name, value in last[0]["state_dict"].items():
        assert torch.equal(value, last[1]["state_dict"][name]), name
    assert last[0]["global_step"] == last[1]["global_step"] == 4


def test_a_killed_run_goes_on_in_its_own_folder(runs):
    """The rows after its newest checkpoint are cut back and written again, to the same bytes."""
    options = ("--trainer.max_epochs=3",)
    runs(*options)
    whole = runs.metrics(0)
    folder = runs.version(0)
    (folder / "summary.json").unlink()
    (folder / "checkpoints" / "step=0003.ckpt").unlink()
    torn = whole[: whole.rindex("\n3,") + 9]
    (folder / "metrics.csv").write_text(torn)
    runs(*options, "--ckpt_path=last")
    assert not runs.version(1).exists()
    assert runs.metrics(0) == whole
    assert [path.name for path in folder.glob("config*")] == ["config.yaml"]


def test_the_saved_config_can_be_used_again(runs):
    """Report F1, last part."""
    runs("--seed_everything=3", "--model.algorithm.alpha2=0.3")
    saved = runs.version(0) / "config.yaml"
    content = yaml.safe_load(saved.read_text())
    assert content["model"]["algorithm"]["init_args"]["alpha2"] == 0.3
    from gtpo_lit.cli import main

    main(["fit", f"--config={saved}"])
    assert runs.metrics(1) == runs.metrics(0)


def test_validate_and_test_print_a_table_and_train_nothing(runs, capsys):
    runs()
    checkpoint = runs.version(0) / "checkpoints" / "step=0002.ckpt"
    after = json.loads((runs.version(0) / "summary.json").read_text())["val"]["after"]
    for command in ("validate", "test"):
        capsys.readouterr()
        runs(f"--ckpt_path={checkpoint}", command=command)
        shown = capsys.readouterr().out
        assert "pass@1" in shown
        assert f"{after['val/chains/pass@1']:.4f}" in shown
    assert len(runs.rows(0)) == 3


def test_a_reference_costs_nothing_unless_asked_for_and_stays_out_of_checkpoints(runs):
    runs("--model.kl_weight=0.1", "--model.kl_kind=k2")
    rows = runs.rows()
    assert float(rows[1]["train/kl/reference"]) == pytest.approx(0.0, abs=1e-6)
    assert float(rows[2]["train/kl/reference"]) > 1e-6
    path = runs.version(0) / "checkpoints" / "step=0001.ckpt"
    saved = torch.load(path, weights_only=True)
    assert not [name for name in saved["state_dict"] if not name.startswith("policy.")]
    assert len(saved["meaning"]["reference"]) == 64
    runs("--model.kl_weight=0.1", "--model.kl_kind=k2", f"--ckpt_path={path}")
    assert runs.metrics(1) == runs.metrics(0)


def test_passes_and_mini_batches_multiply_the_optimiser_steps(runs):
    runs("--data.passes=2", "--data.micro_batches=4", "--trainer.max_epochs=1")
    summary = json.loads((runs.version(0) / "summary.json").read_text())
    assert summary["optimiser_steps"] == 2 * 4 // 2
    row = runs.rows()[1]
    assert float(row["train/ratio/max"]) > 1.001


@pytest.mark.parametrize("name", ["GTPO", "GRPOS"])
def test_entropies_of_the_sampler_give_the_same_metrics(runs, name):
    options = ("--trainer.max_epochs=1", f"--model.algorithm=gtpo_lit.algorithms.{name}")
    runs(*options)
    runs(*options, "--data.entropy_source=sampler")
    first, second = runs.rows(0)[1], runs.rows(1)[1]
    assert first.keys() == second.keys()
    assert float(first["train/entropy/mean"]) > 0.05
    # The gap is rounding, and 0 or not is all the same.
    for name in first.keys() - {"train/shaping/conservation_gap"}:
        if first[name] != second[name]:
            assert float(second[name]) == pytest.approx(float(first[name]), rel=1e-3, abs=1e-6), (
                name
            )
    assert float(second["train/shaping/conservation_gap"]) < 1e-4


def test_a_run_without_entropies_differs_in_their_curve_alone(runs):
    options = ("--model.algorithm=gtpo_lit.algorithms.DAPO",)
    runs(*options)
    runs(*options, "--data.entropy_source=none")
    for first, second in zip(runs.rows(0), runs.rows(1), strict=True):
        entropies = [name for name in first if name.startswith("train/entropy/")]
        assert {name: second.get(name) for name in first if name not in entropies} == {
            name: value for name, value in first.items() if name not in entropies
        }
        assert [second.get(name) or "" for name in entropies] == [""] * len(entropies)
    assert float(first["train/entropy/mean"]) > 0.05


@pytest.mark.parametrize(
    ("options", "scoring", "training"),
    [
        ((), True, False),
        (("--data.entropy_source=sampler",), False, False),
        (("--model.algorithm.entropy_bonus=0.01",), True, True),
        (
            ("--model.algorithm=gtpo_lit.algorithms.DAPO", "--data.entropy_source=none"),
            False,
            False,
        ),
    ],
)
def test_entropies_are_computed_only_where_something_reads_them(
    runs, monkeypatch, options, scoring, training
):
    asked, plain = set(), CausalPolicy.forward

    def forward(self, *arguments, with_entropy=True, **values):
        asked.add((torch.is_grad_enabled(), with_entropy))
        return plain(self, *arguments, with_entropy=with_entropy, **values)

    monkeypatch.setattr(CausalPolicy, "forward", forward)
    runs("--trainer.max_epochs=1", *options)
    assert asked == {(False, scoring), (True, training)}


def test_without_loggers_the_run_is_the_same_and_nothing_is_written(runs, tmp_path, capsys):
    runs()
    wanted = capsys.readouterr().out.rstrip().splitlines()[-1]
    runs("--trainer.logger=false", f"--trainer.default_root_dir={tmp_path / 'plain'}")
    assert capsys.readouterr().out.rstrip().splitlines()[-1] == wanted
    assert not (tmp_path / "plain").exists()

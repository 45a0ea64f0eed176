"""The command line's rules: full names, honest overlays, one seed (reports F1, F3, F4, F5)."""

import sys

import pytest
import yaml
from lightning.pytorch import LightningDataModule, LightningModule

from gtpo_lit.algorithms import Algorithm
from gtpo_lit.cli import GtpoCLI


class Model(LightningModule):
    def __init__(
        self,
        algorithm: Algorithm,
        width: int = 1,
        rate: float = 0.5,
        flag: bool = True,
        note: str | None = None,
    ) -> None:
        super().__init__()
        self.algorithm, self.width, self.rate = algorithm, width, rate
        self.flag, self.note = flag, note


class Data(LightningDataModule):
    def __init__(self, group_size: int = 8, seed: int = 0) -> None:
        super().__init__()
        self.group_size, self.seed = group_size, seed


GTPO = {"class_path": "gtpo_lit.algorithms.GTPO", "init_args": {"clip_high": 0.3, "alpha2": 0.5}}


@pytest.fixture
def parse(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gtpo-lit"])
    monkeypatch.chdir(tmp_path)

    def build(*configs, options=(), **modes):
        arguments = []
        for number, config in enumerate(configs):
            path = tmp_path / f"config{number}.yaml"
            path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
            arguments.append(f"--config={path}")
        return GtpoCLI(Model, Data, args=[*arguments, *options], run=False, **modes)

    return build


def test_a_changed_class_takes_every_default_from_the_new_class(parse):
    overlay = {"model": {"algorithm": {"class_path": "gtpo_lit.algorithms.DAPO"}}}
    cli = parse({"model": {"algorithm": GTPO}}, overlay)
    assert type(cli.model.algorithm).__name__ == "DAPO"
    assert cli.model.algorithm.clip_high == 0.28
    cli = parse(
        {"model": {"algorithm": GTPO}}, options=["--model.algorithm=gtpo_lit.algorithms.DAPO"]
    )
    assert cli.model.algorithm.clip_high == 0.28


def test_the_same_class_keeps_its_arguments_however_it_is_spelled(parse):
    for overlay in (
        {"init_args": {"alpha1": 2.0}},
        {"class_path": "gtpo_lit.algorithms.gtpo.GTPO", "init_args": {"alpha1": 2.0}},
    ):
        cli = parse({"model": {"algorithm": GTPO}}, {"model": {"algorithm": overlay}})
        found = cli.model.algorithm
        assert (found.alpha1, found.alpha2, found.clip_high) == (2.0, 0.5, 0.3)


@pytest.mark.parametrize(
    "option",
    ["--data.group=4", "--data.groups=4", "--trainer.max_ep=3", "--model.algorithm.clip_hi=0.4"],
)
def test_prefixes_and_unknown_options_are_refused(parse, capsys, option):
    with pytest.raises(SystemExit):
        parse({"model": {"algorithm": GTPO}}, options=[option])
    assert option.split("=")[0].split(".")[-1] in capsys.readouterr().err


def test_unknown_keys_in_a_file_are_refused(parse, capsys):
    with pytest.raises(SystemExit):
        parse({"model": {"algorithm": GTPO}, "data": {"group_sise": 4}})
    assert "group_sise" in capsys.readouterr().err


def test_the_seed_reaches_the_data_with_fixed_classes(parse):
    cli = parse({"model": {"algorithm": GTPO}}, options=["--seed_everything=7"])
    assert cli.datamodule.seed == 7
    assert (
        cli.trainer.use_distributed_sampler is False
        if hasattr(cli.trainer, "use_distributed_sampler")
        else True
    )


def test_the_seed_reaches_the_data_chosen_by_class_path(parse):
    """Report F1: the link's target holds `init_args` there."""
    name = f"{__name__}.Data"
    sys.modules[__name__] = sys.modules.get(__name__) or __import__(__name__)
    config = {
        "model": {"algorithm": GTPO},
        "data": {"class_path": name, "init_args": {"group_size": 3}},
    }
    cli = parse(config, options=["--seed_everything=7"], subclass_mode_data=True)
    assert (cli.datamodule.seed, cli.datamodule.group_size) == (7, 3)


def test_the_linked_target_cannot_be_set_by_hand(parse, capsys):
    with pytest.raises(SystemExit):
        parse({"model": {"algorithm": GTPO}}, options=["--data.seed=5"])
    assert 'must be given via "seed_everything"' in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"data.seed = 5 .*must be given as seed_everything"):
        parse({"model": {"algorithm": GTPO}, "data": {"seed": 5}})


def test_a_reference_follows_a_later_override(parse):
    """Report F3: resolved after all configs and flags."""
    config = "model:\n  algorithm: gtpo_lit.algorithms.GRPO\n  width: ${data.group_size}\n"
    assert parse(config, options=["--data.group_size=5"]).model.width == 5
    assert parse(config, "data:\n  group_size: 6\n").model.width == 6


def test_lists_append_with_a_plus_and_replace_without(parse):
    """Report F4."""
    stop = "lightning.pytorch.callbacks.EarlyStopping"
    base = {
        "model": {"algorithm": GTPO},
        "trainer": {"callbacks": [{"class_path": stop, "init_args": {"monitor": "x"}}]},
    }
    rate = "lightning.pytorch.callbacks.LearningRateMonitor"
    names = lambda cli: [  # noqa: E731
        type(callback).__name__
        for callback in cli.trainer.callbacks
        if type(callback).__name__ in ("EarlyStopping", "LearningRateMonitor")
    ]
    assert names(parse(base, options=[f"--trainer.callbacks+={rate}"])) == [
        "EarlyStopping",
        "LearningRateMonitor",
    ]
    assert names(parse(base, options=[f"--trainer.callbacks={rate}"])) == ["LearningRateMonitor"]


def test_values_from_the_environment_arrive_typed(parse, monkeypatch):
    """Report F5."""
    monkeypatch.setenv("FLAG", "false")
    monkeypatch.setenv("RATE", "1e-6")
    monkeypatch.setenv("EMPTY", "")
    config = (
        "model:\n  algorithm: gtpo_lit.algorithms.GRPO\n  flag: ${oc.env:FLAG}\n"
        "  rate: ${oc.env:RATE}\n  note: ${oc.env:EMPTY,other}\n"
    )
    model = parse(config).model
    assert model.flag is False
    assert model.rate == 1e-6
    assert model.note == ""
    unset = config.replace("oc.env:EMPTY,other", "oc.env:UNSET,other")
    assert parse(unset).model.note == "other"


def test_numbers_and_nothing_in_yaml(parse, capsys):
    config = "model:\n  algorithm: gtpo_lit.algorithms.GRPO\n  rate: 1e-6\n"
    assert parse(config).model.rate == 1e-6
    assert parse(config, options=["--model.note=null"]).model.note is None
    assert parse(config, options=["--model.note=None"]).model.note == "None"
    with pytest.raises(SystemExit):
        parse(config, options=["--model.rate=None"])
    assert "model.rate" in capsys.readouterr().err


def test_trainer_options_that_break_the_step_are_named(parse):
    for option, value in (
        ("use_distributed_sampler", "true"), ("limit_train_batches", "3"), ("max_steps", "7"),
        ("overfit_batches", "1"), ("val_check_interval", "2"),
        ("reload_dataloaders_every_n_epochs", "1"), ("fast_dev_run", "true"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"trainer.{option} = "):
            parse({"model": {"algorithm": GTPO}}, options=[f"--trainer.{option}={value}"])

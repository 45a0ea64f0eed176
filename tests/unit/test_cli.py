"""The command line on stand-ins for model and data: no weights, no training."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import torch
import yaml
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.cli import OptimizerCallable

from gtpo_lit import cli
from gtpo_lit.lightning_cli import GtpoCLI, StartMark
from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.run_checkpoint import RunCheckpoint
from gtpo_lit.run_logger import RunLogger


class Credit:
    def __init__(self, *, clip_low: float = 0.2, clip_high: float = 0.2) -> None:
        self.clip_low, self.clip_high = clip_low, clip_high


class First(Credit):
    def __init__(self, *, alpha: float = 0.1, clip_high: float = 0.28, **options: float) -> None:
        super().__init__(clip_high=clip_high, **options)
        self.alpha = alpha


class Second(Credit):
    def __init__(self, *, clip_high: float = 0.25, buffer: int = 4, **options: float) -> None:
        super().__init__(clip_high=clip_high, **options)
        self.buffer = buffer


# The same class under another name.
Alias = First


class Source:
    def __init__(self, size: int = 4) -> None:
        if size < 1:
            raise ValueError(f"size must be at least 1, got {size}")
        self.size = size


class OtherSource(Source):
    def __init__(self, size: int = 9, weight: float = 0.5) -> None:
        super().__init__(size)
        self.weight = weight


class Reward:
    def __init__(self, accuracy: Source, others: list[Source] | None = None) -> None:
        self.accuracy, self.others = accuracy, others


@dataclass(frozen=True, kw_only=True)
class Spec:
    path: str = "embedded:chains"
    checkpointing: bool = True


class Model(LightningModule):
    def __init__(
        self,
        algorithm: Credit,
        policy: Spec = Spec(),
        optimizer: OptimizerCallable = lambda parameters: torch.optim.AdamW(parameters, lr=1e-6),
        kl_weight: float = 0.0,
        kl_kind: Literal["k1", "k2", "k3"] = "k3",
        note: str | None = None,
    ) -> None:
        super().__init__()
        self.algorithm, self.policy, self.optimizer = algorithm, policy, optimizer
        self.kl_weight, self.kl_kind, self.note = kl_weight, kl_kind, note


class Data(LightningDataModule):
    def __init__(
        self,
        problems: Source,
        reward: Reward,
        validation: dict[str, Source] | None = None,
        group_size: int = 8,
        rows: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.problems, self.reward, self.validation = problems, reward, validation or {}
        self.group_size, self.rows, self.seed = group_size, rows, seed


class QuickCLI(GtpoCLI):
    """Builds its parsers once for all tests: that takes most of a test's time."""

    made: ClassVar[dict[Any, dict[str, Any]]] = {}

    def setup_parser(self, add_subcommands: bool, *options: Any) -> None:
        key = (add_subcommands, self.subclass_mode_data, *self.subcommands())
        if key not in self.made:
            before = set(vars(self))
            super().setup_parser(add_subcommands, *options)
            self.made[key] = {k: v for k, v in vars(self).items() if k not in before}
        vars(self).update(self.made[key])


HERE = __name__
BASE = f"""
model:
  algorithm: {{class_path: {HERE}.First, init_args: {{clip_high: 0.3, alpha: 0.7}}}}
data:
  problems: {{class_path: {HERE}.Source, init_args: {{size: 5}}}}
  reward:
    accuracy: {{class_path: {HERE}.Source, init_args: {{size: 6}}}}
  validation:
    a: {{class_path: {HERE}.Source, init_args: {{size: 7}}}}
"""
SUBCLASSES = {
    "model_class": LightningModule,
    "datamodule_class": LightningDataModule,
    "subclass_mode_model": True,
    "subclass_mode_data": True,
}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gtpo-lit"])
    Path("base.yaml").write_text(BASE)


def overlay(text: str, name: str = "overlay.yaml") -> str:
    """An option that adds a config file with this text."""
    Path(name).write_text(text)
    return f"--config={name}"


def build(*args: str) -> GtpoCLI:
    return QuickCLI(Model, Data, args=["--config=base.yaml", *args], run=False)


def build_subclasses(*args: str) -> GtpoCLI:
    base = yaml.safe_load(BASE)
    text = yaml.safe_dump(
        {
            "model": {"class_path": f"{HERE}.Model", "init_args": base["model"]},
            "data": {"class_path": f"{HERE}.Data", "init_args": base["data"]},
        }
    )
    return QuickCLI(**SUBCLASSES, args=[overlay(text, "subclasses.yaml"), *args], run=False)


def printed(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    """The config of `fit` as --print_config prints it."""
    with pytest.raises(SystemExit) as stop:
        QuickCLI(Model, Data, args=["fit", "--config=base.yaml", *args, "--print_config"])
    assert stop.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *args: str, make: Any = build) -> str:
    """The one line with which options that do not parse are refused."""
    with pytest.raises(SystemExit) as stop:
        make(*args)
    assert stop.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("gtpo-lit: error: ")
    return captured.err


# 1. Strictness


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--data.group=4", "did you mean --data.group_size?"),
        ("--trainer.max_ep=3", "did you mean --trainer.max_epochs?"),
        ("--seed=3", "did you mean --seed_everything?"),
        ("--model.kl_weigth=3", "did you mean --model.kl_weight?"),
        ("--run.ro=x", "did you mean --run.root?"),
        ("--model.policy.pat=x", "did you mean --model.policy.path?"),
        ("--model.algorithm.clip_hi=0.5", "Option 'clip_hi' is not accepted"),
        ("--model.algorithm.init_args.clip_hi=0.5", "Option 'clip_hi' is not accepted"),
        ("--data.problems.si=4", "Option 'si' is not accepted"),
        ("--data.reward.acc.size=4", "--acc.size=4"),
        ("--data.reward.accuracy.si=4", "Option 'si' is not accepted"),
        ("--model.optimizer.weight=4", "weight"),
        ("--nonsense=4", "--nonsense=4"),
    ],
)
def test_prefixes_and_unknown_options_are_refused_by_name(option, named, capsys):
    assert named in refusal(capsys, option)


@pytest.mark.parametrize("subcommand", ["fit", "validate", "test"])
def test_prefixes_are_refused_in_every_subcommand(subcommand, capsys):
    def make(*args: str) -> None:
        QuickCLI(Model, Data, args=[subcommand, "--config=base.yaml", *args])

    line = refusal(capsys, "--data.group=4", make=make)
    assert "--data.group=4 (did you mean --data.group_size?)" in line


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("modle: {a: 3}", "modle"),
        ("model: {klw: 3}", "klw"),
        (f"model: {{algorithm: {{class_path: {HERE}.First, init_args: {{clip: 1}}}}}}", "clip"),
        ("data: {reward: {init_args: {accuracy: {init_args: {sice: 3}}}}}", "sice"),
        ("model: {policy: {paht: x}}", "paht"),
        ("model: {kl_kind: k9}", "k9"),
        ("data: {group_size: many}", "many"),
        ("model: [", "overlay.yaml"),
    ],
)
def test_unknown_keys_and_bad_values_in_files_are_refused_by_name(text, named, capsys):
    assert named in refusal(capsys, overlay(text))


def test_missing_config_file_is_named(capsys):
    assert "nowhere.yaml" in refusal(capsys, "--config=nowhere.yaml")


@pytest.mark.parametrize(
    "args",
    [
        [f"--model.algorithm={HERE}.Second"],
        [f"--model.algorithm.class_path={HERE}.Second"],
        ["OVERLAY"],
    ],
)
def test_changed_class_takes_every_default_from_the_new_class(args):
    text = f"model: {{algorithm: {{class_path: {HERE}.Second}}}}"
    args = [overlay(text) if arg == "OVERLAY" else arg for arg in args]
    algorithm = build(*args).model.algorithm
    assert type(algorithm) is Second
    assert (algorithm.clip_high, algorithm.clip_low, algorithm.buffer) == (0.25, 0.2, 4)


def test_changed_class_keeps_what_is_given_with_it():
    text = f"model: {{algorithm: {{class_path: {HERE}.Second, init_args: {{buffer: 7}}}}}}"
    algorithm = build(overlay(text), "--model.algorithm.clip_low=0.1").model.algorithm
    assert (algorithm.clip_high, algorithm.clip_low, algorithm.buffer) == (0.25, 0.1, 7)


def test_changed_class_inside_another_class_forgets_too():
    text = f"data: {{reward: {{init_args: {{accuracy: {{class_path: {HERE}.OtherSource}}}}}}}}"
    for option in (overlay(text), f"--data.reward.accuracy={HERE}.OtherSource"):
        accuracy = build(option).datamodule.reward.accuracy
        assert (type(accuracy), accuracy.size, accuracy.weight) == (OtherSource, 9, 0.5)


def test_changed_class_in_a_mapping_forgets_too():
    text = f"data: {{validation: {{a: {{class_path: {HERE}.OtherSource}}}}}}"
    source = build(overlay(text)).datamodule.validation["a"]
    assert (type(source), source.size) == (OtherSource, 9)


def test_changed_optimizer_forgets_too():
    text = """
    model:
      optimizer:
        class_path: torch.optim.SGD
        init_args: {lr: 0.1, momentum: 0.9, weight_decay: 0.3}
    """
    made = build(overlay(text), "--model.optimizer=torch.optim.AdamW").model
    optimizer = made.optimizer([torch.nn.Parameter(torch.zeros(1))])
    assert type(optimizer) is torch.optim.AdamW
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (1e-3, 1e-2)  # AdamW's own defaults


@pytest.mark.parametrize(
    "algorithm",
    [
        "{init_args: {clip_low: 0.1}}",
        f"{{class_path: {HERE}.First, init_args: {{clip_low: 0.1}}}}",
        f"{{class_path: {HERE}.Alias, init_args: {{clip_low: 0.1}}}}",
        "{class_path: First, init_args: {clip_low: 0.1}}",
    ],
)
def test_same_class_however_it_is_spelled_keeps_its_arguments(algorithm):
    made = build(overlay(f"model: {{algorithm: {algorithm}}}")).model.algorithm
    assert type(made) is First
    assert (made.alpha, made.clip_high, made.clip_low) == (0.7, 0.3, 0.1)


def test_lists_are_replaced_and_never_merged_by_index():
    others = "data: {{reward: {{init_args: {{others: [{{class_path: {}.Source{}}}]}}}}}}"
    made = build(
        overlay(others.format(HERE, ", init_args: {size: 3}"), "one.yaml"),
        overlay(others.format(HERE, ""), "two.yaml"),
    )
    assert [source.size for source in made.datamodule.reward.others] == [4]


# 2. Interpolation, environment, lists


@pytest.mark.parametrize("key", ["${.group_size}", "${..data.group_size}", "${data.group_size}"])
def test_interpolation_sees_later_files_and_flags(key):
    rows = overlay(f"data: {{rows: '{key}'}}", "rows.yaml")
    assert build(rows).datamodule.rows == 8
    assert build(rows, "--data.group_size=5").datamodule.rows == 5
    assert build(rows, overlay("data: {group_size: 6}")).datamodule.rows == 6
    assert build("--data.group_size=5", rows).datamodule.rows == 5


@pytest.mark.parametrize("key", ["${.group_size}", "${data.group_size}"])
def test_interpolation_works_below_a_subcommand(key, capsys):
    rows = overlay(f"data: {{rows: '{key}'}}")
    assert printed(capsys, rows, "--data.group_size=5")["data"]["rows"] == 5


def test_interpolation_of_nothing_is_refused_by_name(capsys):
    assert "no_such_key" in refusal(capsys, overlay("data: {rows: '${.no_such_key}'}"))


def test_environment_values_get_the_type_of_their_field(monkeypatch):
    for name, value in {"FLAG": "false", "RATE": "1e-6", "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("UNSET", raising=False)
    text = """
    model:
      policy: {checkpointing: "${oc.env:FLAG}", path: "${oc.env:UNSET,dflt}"}
      kl_weight: ${oc.env:RATE}
      note: ${oc.env:EMPTY,dflt}
      optimizer: {class_path: torch.optim.SGD, init_args: {lr: "${oc.env:RATE}"}}
    """
    model = build(overlay(text)).model
    assert model.policy.checkpointing is False
    assert model.policy.path == "dflt"
    assert type(model.kl_weight) is float
    assert model.kl_weight == 1e-6
    assert model.note == ""
    rate = model.optimizer([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]["lr"]
    assert (type(rate), rate) == (float, 1e-6)


def test_numbers_without_a_point_and_nulls_in_files():
    text = """
    model:
      note: None
      optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 1e-6, weight_decay: 0.1}}
    """
    model = build(overlay(text)).model
    group = model.optimizer([torch.nn.Parameter(torch.zeros(1))]).param_groups[0]
    assert (type(group["lr"]), group["lr"], group["weight_decay"]) == (float, 1e-6, 0.1)
    assert model.note == "None"
    assert build("--model.note=null").model.note is None
    assert build("--model.note=None").model.note == "None"


def test_callbacks_are_appended_or_replaced():
    stopping = overlay(
        "trainer: {callbacks: [{class_path: EarlyStopping, init_args: {monitor: m, patience: 9}}]}"
    )

    def given(*args: str) -> list[type]:
        callbacks = build(*args).trainer.callbacks
        return [type(c) for c in callbacks if isinstance(c, EarlyStopping | LearningRateMonitor)]

    append, replace = (f"--trainer.callbacks{sign}=LearningRateMonitor" for sign in ("+", ""))
    assert given(stopping, append) == [EarlyStopping, LearningRateMonitor]
    assert given(stopping, replace) == [LearningRateMonitor]
    assert given(append, stopping) == [EarlyStopping]


# 3. The seed


def seeds(made: GtpoCLI) -> tuple[int, int]:
    return made.datamodule.seed, made.config.seed_everything


@pytest.mark.parametrize("make", [build, build_subclasses])
def test_one_seed_decides_all(make):
    assert seeds(make()) == (0, 0)
    assert seeds(make("--seed_everything=6")) == (6, 6)
    assert seeds(make(overlay("seed_everything: 7"))) == (7, 7)


@pytest.mark.parametrize("value", ["true", "false", "null", "1.5", "abc"])
def test_seed_that_is_no_number_does_not_parse(value, capsys):
    assert "seed_everything" in refusal(capsys, f"--seed_everything={value}")


@pytest.mark.parametrize("value", ["-1", "4294967296"])
def test_seed_that_cannot_be_repeated_is_refused(value):
    with pytest.raises(ValueError, match="seed_everything must be a number .* can be repeated"):
        build(f"--seed_everything={value}")


@pytest.mark.parametrize(
    ("make", "target"), [(build, "{}"), (build_subclasses, "{{init_args: {}}}")]
)
def test_linked_seed_in_a_file_is_refused_unless_equal(make, target, capsys):
    data = "data: " + target.format("{seed: 4}")
    line = refusal(capsys, overlay(data), make=make)
    assert "seed = 4 must be given as seed_everything, which decides it (now 0)" in line
    assert seeds(make(overlay(data + "\nseed_everything: 4"))) == (4, 4)
    assert seeds(make(overlay(data), "--seed_everything=4")) == (4, 4)


@pytest.mark.parametrize(
    ("make", "option"), [(build, "--data.seed=4"), (build_subclasses, "--data.init_args.seed=4")]
)
def test_linked_seed_as_a_flag_is_refused(make, option, capsys):
    assert "seed_everything" in refusal(capsys, option, make=make)


@pytest.mark.parametrize("make", [build, build_subclasses])
def test_saved_config_can_be_given_again(make):
    first = make("--seed_everything=6")
    text = first.parser.dump(first.config, skip_unset=False)
    again = make(overlay(text, "saved.yaml"))
    assert seeds(again) == (6, 6)
    assert again.parser.dump(again.config, skip_unset=False) == text
    assert seeds(make("--config=saved.yaml", "--seed_everything=8")) == (8, 8)


@pytest.mark.parametrize(
    ("first", "offered"),
    [
        ("validate", ["validate"]),
        ("validat", ["fit", "validate", "test"]),
        ("--config=base.yaml", ["fit", "validate", "test"]),
    ],
)
def test_of_the_subcommands_that_one_is_built_which_is_asked_for(first, offered, monkeypatch):
    class Stop(Exception):
        pass

    class Offers(GtpoCLI):
        def setup_parser(self, *_: Any) -> None:
            raise Stop(list(self.subcommands()))

    for args in ([first], None):
        monkeypatch.setattr(sys, "argv", ["gtpo-lit", first])
        with pytest.raises(Stop) as stop:
            Offers(Model, Data, args=args)
        assert stop.value.args == (offered,)


@pytest.mark.parametrize("subcommand", ["fit", "validate", "test"])
def test_printed_config_can_be_given_again(subcommand, capsys):
    first = printed(capsys, "--seed_everything=6", f"--model.algorithm={HERE}.Second")
    again = overlay(yaml.safe_dump(first), "printed.yaml")
    with pytest.raises(SystemExit) as stop:
        QuickCLI(Model, Data, args=[subcommand, again, "--print_config"])
    assert stop.value.code == 0
    second = yaml.safe_load(capsys.readouterr().out)
    assert {name: second[name] for name in first} == first


# 4. Trainer, loggers, checkpoints


def test_run_folder_loggers_and_checkpoints_are_there_by_default():
    trainer = build("--run.root=out", "--run.name=mine", "--trainer.accelerator=cpu").trainer
    # Asking a logger for its folder claims one; building it does not.
    assert not Path("out").exists()
    assert [type(logger) for logger in trainer.loggers] == [RunLogger, RunTensorBoardLogger]
    assert trainer.loggers[0].root_dir == str(Path("out/mine"))
    assert [type(callback) for callback in trainer.checkpoint_callbacks] == [RunCheckpoint]
    assert (trainer.max_epochs, trainer.num_sanity_val_steps) == (1, float("inf"))
    assert trainer.log_every_n_steps == 1


def test_without_logger_nothing_is_written():
    trainer = build("--trainer.logger=false").trainer
    assert trainer.loggers == []
    assert trainer.checkpoint_callbacks == []


def test_given_loggers_and_checkpoints_stay_as_given():
    trainer = build(
        "--trainer.logger=CSVLogger",
        "--trainer.logger.save_dir=elsewhere",
        "--trainer.callbacks=ModelCheckpoint",
    ).trainer
    assert [type(logger).__name__ for logger in trainer.loggers] == ["CSVLogger"]
    assert [type(callback) for callback in trainer.checkpoint_callbacks] == [ModelCheckpoint]


@pytest.mark.parametrize("option", ["limit_train_batches", "val_check_interval"])
def test_one_batch_and_the_whole_step_are_told_apart(option):
    with pytest.raises(ValueError, match=f"^trainer.{option} = 1 breaks"):
        build(f"--trainer.{option}=1")
    build(f"--trainer.{option}=1.0")


@pytest.mark.parametrize("name", ["", "../x", "/x", "a//b"])
def test_run_name_stays_below_the_root(name):
    with pytest.raises(ValueError, match=r"run\.name"):
        build(f"--run.name={name}")


# 6. Checkpoints by path


class NoRun(QuickCLI):
    """Stops before the subcommand runs."""

    def _run_subcommand(self, subcommand: str) -> None:
        self.arguments = self._prepare_subcommand_kwargs(subcommand)


def start(subcommand: str, *args: str) -> NoRun:
    return NoRun(Model, Data, args=[subcommand, "--config=base.yaml", *args])


@pytest.mark.parametrize("subcommand", ["fit", "validate", "test"])
def test_missing_checkpoint_is_refused_by_name(subcommand):
    with pytest.raises(ValueError, match="ckpt_path = 'no/such.ckpt': no such checkpoint"):
        start(subcommand, "--ckpt_path=no/such.ckpt")


@pytest.mark.parametrize("subcommand", ["validate", "test"])
def test_last_without_any_checkpoint_is_no_policy_to_evaluate(subcommand):
    with pytest.raises(ValueError, match="ckpt_path = 'last': no checkpoint under runs/mine"):
        start(subcommand, "--ckpt_path=last", "--run.name=mine")


def test_last_without_any_checkpoint_starts_anew(capsys):
    made = start("fit", "--ckpt_path=last", "--run.name=mine")
    assert made.arguments["ckpt_path"] is None
    assert capsys.readouterr().out == (
        "gtpo-lit: no checkpoint under runs/mine yet: fit starts from the initial policy\n"
    )
    assert made.trainer.num_sanity_val_steps == float("inf")


def test_last_is_the_newest_of_the_newest_version_that_has_one():
    for name in ("version_0/checkpoints/step=0009.ckpt", "version_1/checkpoints/step=0002.ckpt"):
        path = Path("runs/mine") / name
        path.parent.mkdir(parents=True)
        torch.save({}, path)
    torch.save({}, "runs/mine/version_1/checkpoints/step=0010.ckpt")
    Path("runs/mine/version_2").mkdir()
    made = start("fit", "--ckpt_path=last", "--run.name=mine", "--trainer.max_epochs=11")
    wanted = Path("runs/mine/version_1/checkpoints/step=0010.ckpt")
    assert Path(made.arguments["ckpt_path"]).resolve() == wanted.resolve()
    # What was validated before the first step is not validated again.
    assert made.trainer.num_sanity_val_steps == 0
    assert made.arguments["weights_only"] is True


# 7. Errors


def run_main(*args: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Standing(QuickCLI):
        def __init__(self, *, args: Any, mark: StartMark) -> None:
            super().__init__(Model, Data, args=args, mark=mark)

    monkeypatch.setattr("gtpo_lit.lightning_cli.GtpoCLI", Standing)
    monkeypatch.setattr(cli, "quiet", lambda: None)
    cli.main([*args])


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--data.problems.size=0", "size must be at least 1, got 0"),
        ("--seed_everything=-1", "seed_everything must be a number"),
        ("--trainer.max_steps=3", "trainer.max_steps = 3 breaks"),
        ("--ckpt_path=none.ckpt", "ckpt_path = 'none.ckpt': no such checkpoint"),
        ("--data.group=3", "unrecognized arguments: --data.group=3"),
        ("--trainer.devices=0", "devices"),
    ],
)
def test_user_errors_are_one_line_and_code_2(option, line, monkeypatch, capsys):
    monkeypatch.delenv("GTPO_LIT_TRACEBACK", raising=False)
    with pytest.raises(SystemExit) as stop:
        run_main("fit", "--config=base.yaml", option, monkeypatch=monkeypatch)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("gtpo-lit: error: ")
    assert error.count("\n") == 1
    assert line in error


def test_traceback_is_shown_on_request(monkeypatch):
    monkeypatch.setenv("GTPO_LIT_TRACEBACK", "1")
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        run_main("fit", "--config=base.yaml", "--data.problems.size=0", monkeypatch=monkeypatch)


def test_errors_after_the_start_keep_their_traceback(monkeypatch):
    def fail(self: GtpoCLI, subcommand: str) -> None:
        self.mark.on_train_start(self.trainer, self.model)
        raise ValueError("in step 3")

    monkeypatch.setattr(GtpoCLI, "_run_subcommand", fail)
    with pytest.raises(ValueError, match="in step 3"):
        run_main("fit", "--config=base.yaml", monkeypatch=monkeypatch)


def test_validation_and_test_are_work_that_has_begun():
    for hook in ("on_sanity_check_start", "on_train_start", "on_validation_start", "on_test_start"):
        mark = StartMark()
        assert not mark.begun
        getattr(mark, hook)(None, None)
        assert mark.begun


# 9. The command


def environment() -> dict[str, str]:
    """In which a new process finds the package under test."""
    return {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}


@pytest.mark.parametrize(("args", "code"), [(["--help"], 0), (["-h"], 0), ([], 2)])
def test_help_needs_no_imports(args, code):
    program = (
        "import sys; from gtpo_lit.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: assert not {'torch', 'lightning', 'transformers'} & set(sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, *args],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert ended.returncode == code
    text = ended.stderr if code else ended.stdout
    assert text == cli.HELP


def test_module_is_the_command():
    ended = subprocess.run(
        [sys.executable, "-m", "gtpo_lit", "--help"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )
    assert (ended.returncode, ended.stdout) == (0, cli.HELP)


def test_cli_module_offers_the_class():
    assert cli.GtpoCLI is GtpoCLI
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = cli.Nothing

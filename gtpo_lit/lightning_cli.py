"""`LightningCLI` for RL runs: strict options, one seed, runs in folders."""

from __future__ import annotations

import sys
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import Logger

from gtpo_lit.datamodule import RolloutDataModule
from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.loggers.follower import Follower
from gtpo_lit.module import PolicyModule
from gtpo_lit.preemption import Preemption
from gtpo_lit.resume import find_checkpoint, say_if_finished
from gtpo_lit.run_checkpoint import RunCheckpoint, refuse_mid_step_checkpoints
from gtpo_lit.run_config import RunOptions, SaveRunConfig
from gtpo_lit.run_logger import RunLogger
from gtpo_lit.strategy import refuse_sharded_checkpoint, refuse_unfit
from gtpo_lit.strict_parser import StrictParser
from gtpo_lit.trainer_rules import TRAINER_DEFAULTS, refuse_broken_steps


class StartMark(Callback):
    """Knows whether work has begun: what fails after that is no slip in the options."""

    begun = False
    run_logger: RunLogger | None = None

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the mark."""
        self.begun = True

    on_train_start = on_validation_start = on_test_start = on_sanity_check_start


class GtpoCLI(LightningCLI):
    """Builds model, data and trainer from files and flags, and runs a subcommand.

    With `subclass_mode_model` or `subclass_mode_data` the model or the data is chosen by
    `class_path`; options then stand under `init_args`.

    Args:
        model_class: of the model, or its base class.
        datamodule_class: of the data, or its base class.
        args: command line; `sys.argv` if not given.
        mark: is set when work begins.
        options: any other option of `LightningCLI`.

    Raises:
        ValueError: for options that cannot mean what they seem to, naming option and value.
        SystemExit: with code 2 for options that do not parse, after one line on stderr.
    """

    def __init__(
        self,
        model_class: Any = PolicyModule,
        datamodule_class: Any = RolloutDataModule,
        *,
        args: ArgsType = None,
        mark: StartMark | None = None,
        **options: Any,
    ) -> None:
        self.mark = mark or StartMark()
        self._asked = _first(args)
        defaults: dict[str, Any] = {
            "save_config_callback": SaveRunConfig,
            "trainer_defaults": dict(TRAINER_DEFAULTS),
            "seed_everything_default": 0,
            "parser_class": StrictParser,
            "auto_configure_optimizers": False,
            "load_from_checkpoint_support": False,
        }
        super().__init__(model_class, datamodule_class, args=args, **(defaults | options))

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Fit, validate and test; that one alone which is asked for, since each takes a while."""
        found = LightningCLI.subcommands()
        names = ("fit", "validate", "test")
        return {
            name: found[name] for name in names if self._asked not in names or name == self._asked
        }

    def init_parser(self, **options: Any) -> LightningArgumentParser:
        """Make a parser that goes by the command's name."""
        parser = super().init_parser(**options)
        parser.prog = "gtpo-lit"
        return parser

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the seed, which is always a number."""
        parser.add_argument(
            "--seed_everything",
            type=int,
            default=self.seed_everything_default,
            help="Seed of all random streams; equal seeds give equal runs.",
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the run's options, and let one seed decide all random streams."""
        parser.add_argument("--run", type=RunOptions, default=RunOptions())
        target = "data.init_args.seed" if self.subclass_mode_data else "data.seed"
        parser.link_arguments("seed_everything", target)

    def _prepare_subcommand_parser(
        self, klass: type, subcommand: str, **options: Any
    ) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **options)
        # Checkpoints hold nothing but tensors and plain values, and load as such.
        parser.set_defaults({"weights_only": True})
        if subcommand != "fit":
            # The figures are printed by set, with their intervals, by `callbacks.PassAtK`.
            parser.set_defaults({"verbose": False})
        return parser

    def _parse_ckpt_path(self) -> None:
        """Nothing: checkpoints hold no options, and reading one twice takes long."""

    def _set_seed(self) -> None:
        seed = self._get(self.config, "seed_everything")
        if seed is None or isinstance(seed, bool) or not 0 <= seed < 2**32:
            raise ValueError(
                f"seed_everything must be a number from 0 to 2**32 - 1, so that runs can be "
                f"repeated, got {seed!r}"
            )
        super()._set_seed()

    def before_instantiate_classes(self) -> None:
        """Refuse what would not mean what it seems to, before anything is built.

        Raises:
            ValueError: naming option and value.
        """
        config = self.config.get(str(self.subcommand), self.config)
        refuse_broken_steps(config.trainer.as_dict())
        if self.subcommand is not None:
            run = config.run
            found = find_checkpoint(
                config.get("ckpt_path"), run.root, run.name, command=self.subcommand
            )
            config["ckpt_path"] = found
            if self.subcommand == "fit" and found is not None:
                say_if_finished(found, config.trainer.max_epochs)

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """Build the trainer with the run's loggers and checkpoints, unless others are given."""
        trainer = self._get(self.config_init, "trainer")
        resume = self._get(self.config_init, "ckpt_path") if self.subcommand == "fit" else None
        if trainer.get("logger") is not False:
            options.setdefault("logger", self._loggers(trainer.get("logger"), resume))
        if resume is not None:
            # The run was validated before its first step; a resume begins after that.
            options.setdefault("num_sanity_val_steps", 0)
        given = trainer.get("callbacks") or []
        callbacks = [*given] if isinstance(given, list) else [given]
        if not any(isinstance(callback, Checkpoint) for callback in callbacks):
            # Without a logger there is no run folder, and nothing is written.
            written = trainer.get("logger") is not False
            if written and trainer.get("enable_checkpointing") is not False:
                callbacks.append(RunCheckpoint())
            else:
                options.setdefault("enable_checkpointing", False)
        run = self._get(self.config_init, "run")
        # First, since it tells those that save whether the step that ends is the last one.
        callbacks = [Preemption(run.grace_seconds), *callbacks, self.mark]
        built = super().instantiate_trainer(callbacks=callbacks, **options)
        refuse_mid_step_checkpoints(built)
        refuse_unfit(built.strategy)
        refuse_sharded_checkpoint(built.strategy, self._get(self.config_init, "ckpt_path"))
        return built

    def _loggers(self, given: Any, resume: str | None) -> list[Logger]:
        """The run folder's logger, and those that follow it; others stay as they are given."""
        loggers: list[Logger] = []
        if given in (None, True):
            if RunTensorBoardLogger.installed():
                loggers.append(RunTensorBoardLogger())
        else:
            loggers += given if isinstance(given, (list, tuple)) else [given]
            if not any(isinstance(one, Follower) for one in loggers):
                return loggers
        run_logger = next((one for one in loggers if isinstance(one, RunLogger)), None)
        if run_logger is None:
            run = self._get(self.config_init, "run")
            run_logger = RunLogger(root=run.root, name=run.name, ckpt_path=resume)
            self.mark.run_logger = run_logger
        for logger in loggers:
            if isinstance(logger, Follower):
                logger.follow(run_logger)
        return [run_logger, *(one for one in loggers if one is not run_logger)]


def _first(args: ArgsType) -> Any:
    given = sys.argv[1:] if args is None else args
    return given[0] if isinstance(given, list) and given else None

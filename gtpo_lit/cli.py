"""The command line: ``gtpo-lit fit --config configs/quickstart.yaml``."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.cli import (
    ArgsType,
    LightningArgumentParser,
    LightningCLI,
    SaveConfigCallback,
)
from transformers.utils import logging as transformers_logging

from gtpo_lit.datamodule import RolloutDataModule
from gtpo_lit.module import PolicyModule
from gtpo_lit.run_checkpoint import RunCheckpoint, refuse_mid_step_checkpoints
from gtpo_lit.run_folder import last_checkpoint
from gtpo_lit.run_logger import RunLogger, RunTensorBoardLogger
from gtpo_lit.strict_parser import install_class_path_rule, refuse_decided_keys

# One epoch is one RL step, and the loader is ready-made for its rank.
TRAINER_DEFAULTS = {
    "use_distributed_sampler": False,
    "num_sanity_val_steps": -1,
    "enable_model_summary": False,
    "log_every_n_steps": 1,
    "inference_mode": False,
    "max_epochs": 1,
}
FIXED = {
    "use_distributed_sampler": False,
    "limit_train_batches": None,
    "overfit_batches": 0.0,
    "val_check_interval": None,
    "max_steps": -1,
    "fast_dev_run": False,
    "reload_dataloaders_every_n_epochs": 0,
    "barebones": False,
}
STRICT = {"allow_abbrev": False, "parser_mode": "omegaconf+"}


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where runs are kept."""

    root: str = "runs"
    """Folder of all runs."""
    name: str = "run"
    """Of this run; its versions are counted under it."""


class SaveRunConfig(SaveConfigCallback):
    """Saves `config.yaml` into the run's folder; a resume saves its own beside it."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Save under the first name that is free."""
        folder = Path(str(trainer.log_dir))
        number = 0
        while (folder / self.config_filename).exists():
            number += 1
            self.config_filename = f"config.resume-{number}.yaml"
        self.config_filename = trainer.strategy.broadcast(self.config_filename)
        super().setup(trainer, pl_module, stage)


class TrainingMark(Callback):
    """Knows whether training has begun: what fails after that is no slip in the config."""

    begun = False

    def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
        """Set the mark."""
        self.begun = True


class GtpoCLI(LightningCLI):
    """`LightningCLI` that takes full option names only and keeps runs in folders.

    With `subclass_mode_model` or `subclass_mode_data` the model or the data is chosen by
    `class_path`; options then stand under `init_args`.
    """

    def __init__(
        self,
        model_class: Any = PolicyModule,
        datamodule_class: Any = RolloutDataModule,
        args: ArgsType = None,
        **options: Any,
    ) -> None:
        self.mark = TrainingMark()
        install_class_path_rule()
        strict = {name: dict(STRICT) for name in self.subcommands()}
        defaults: dict[str, Any] = {
            "save_config_callback": SaveRunConfig,
            "trainer_defaults": dict(TRAINER_DEFAULTS),
            "seed_everything_default": 0,
            "auto_configure_optimizers": False,
            "load_from_checkpoint_support": False,
            "parser_kwargs": dict(STRICT) | (strict if options.get("run", True) else {}),
        }
        super().__init__(model_class, datamodule_class, args=args, **(defaults | options))

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Fit, validate and test."""
        found = LightningCLI.subcommands()
        return {name: found[name] for name in ("fit", "validate", "test")}

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the run's options, and let one seed decide all random streams."""
        parser.add_argument("--run", type=RunOptions, default=RunOptions())
        parser.link_arguments("seed_everything", self._seed_target)

    def _prepare_subcommand_parser(
        self, klass: type, subcommand: str, **options: Any
    ) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **options)
        # Checkpoints hold nothing but tensors and plain values, and load as such.
        parser.set_defaults({"weights_only": True})
        return parser

    @property
    def _seed_target(self) -> str:
        return "data.init_args.seed" if self.subclass_mode_data else "data.seed"

    def before_instantiate_classes(self) -> None:
        """Refuse what would not mean what it seems to, before anything is built.

        Raises:
            ValueError: naming option and value.
        """
        config = self.config.get(str(self.subcommand), self.config)
        refuse_decided_keys(config, {self._seed_target: "seed_everything"})
        for name, wanted in FIXED.items():
            value = config.get(f"trainer.{name}")
            if (
                value is not None
                and value != wanted
                and (name, value) != ("val_check_interval", 1.0)
            ):
                raise ValueError(
                    f"trainer.{name} = {value} breaks 'one epoch is one RL step': leave it unset"
                )
        self._find_checkpoint(config)

    def _find_checkpoint(self, config: Any) -> None:
        path, run = config.get("ckpt_path"), config.get("run")
        if path == "last":
            found = last_checkpoint(Path(run.root), run.name)
            if found is None:
                print(f"gtpo-lit: no checkpoint under {run.root}/{run.name} yet: starting anew")
            config["ckpt_path"] = None if found is None else str(found)
        elif path is not None and not Path(path).exists():
            raise ValueError(f"ckpt_path = {path!r}: no such checkpoint")

    def instantiate_trainer(self, **options: Any) -> Trainer:
        """Build the trainer with the run's loggers and checkpoints, unless others are given."""
        trainer = self._get(self.config_init, "trainer")
        run = self._get(self.config_init, "run")
        resume = self._get(self.config_init, "ckpt_path") if self.subcommand == "fit" else None
        if trainer.get("logger") in (None, True):
            run_logger = RunLogger(root=run.root, name=run.name, resume_from=resume)
            options["logger"] = [run_logger, RunTensorBoardLogger(run_logger)]
        if resume is not None:
            # The run was validated before its first step; a resume begins after that.
            options["num_sanity_val_steps"] = 0
        given = trainer.get("callbacks") or []
        callbacks = list(given) if isinstance(given, list) else [given]
        if trainer.get("enable_checkpointing") is not False and not any(
            isinstance(callback, Checkpoint) for callback in callbacks
        ):
            callbacks.append(RunCheckpoint())
        built = super().instantiate_trainer(callbacks=[*callbacks, self.mark], **options)
        refuse_mid_step_checkpoints(built)
        return built

    def _set_seed(self) -> None:
        """Seed everything with a number that the config says.

        Raises:
            ValueError: for a seed that Lightning would choose, or leave out.
        """
        seed = self._get(self.config, "seed_everything")
        if isinstance(seed, bool) or seed is None:
            raise ValueError(f"seed_everything must be a number, so that runs repeat, got {seed}")
        super()._set_seed()

    def _parse_ckpt_path(self) -> None:
        """Nothing: checkpoints hold no options, and reading one twice takes long."""


def main(args: ArgsType = None) -> None:
    """Run a subcommand; errors in what was asked for end with one line and exit code 2.

    `GTPO_LIT_TRACEBACK=1` shows where they come from.
    """
    quiet()
    cli = GtpoCLI.__new__(GtpoCLI)
    try:
        cli.__init__(args=args)  # type: ignore[misc]
    except (ValueError, FileNotFoundError, MisconfigurationException) as error:
        begun = getattr(cli, "mark", None) is not None and cli.mark.begun
        if begun or os.environ.get("GTPO_LIT_TRACEBACK", "0") not in ("", "0"):
            raise
        for logger in getattr(cli, "trainer", None) and cli.trainer.loggers or []:
            if isinstance(logger, RunLogger):
                logger.abandon()
        print(f"gtpo-lit: error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def quiet() -> None:
    """Keep tips and notes of the libraries off the screen; warnings about the run stay."""
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_tip)
    logging.getLogger("lightning.fabric.utilities.seed").setLevel(logging.WARNING)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers_logging.disable_progress_bar()
    for message in (
        ".*does not have many workers.*",
        ".*Checkpoint directory .* exists and is not empty.*",
        ".*module\\(s\\) in eval mode at the start of training.*",
        ".*Trying to infer the `batch_size`.*",
        ".*isinstance\\(treespec, LeafSpec\\).*",
    ):
        warnings.filterwarnings("ignore", message=message)


def _is_no_tip(record: logging.LogRecord) -> bool:
    noise = ("Tip:", "GPU available", "TPU available", "max_epochs=", "LOCAL_RANK", "to estimate")
    return not any(text in record.getMessage() for text in noise)

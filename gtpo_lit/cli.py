"""The command line: ``gtpo-lit fit --config configs/quickstart.yaml``."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gtpo_lit.lightning_cli import GtpoCLI as GtpoCLI

HELP = """\
usage: gtpo-lit {fit,validate,test,credit,consolidate} [--config FILE]... [--OPTION=VALUE]...

Reinforcement learning of LLM reasoning with entropy-based credit (GTPO, GRPO-S).

  fit        train a policy; an epoch of the trainer is one RL step
  validate   evaluate on data.validation; tables and samples go to the run's folder
  test       the same on data.test, or on data.validation if that is not given
  credit     credit of recorded rollouts under other algorithms; its options: credit --help
  consolidate  a sharded checkpoint as one file or a Hugging Face folder: consolidate --help

Options come from files and flags; the later one wins. Names are never shortened.
  --config FILE              a YAML file; may be given several times
  --ckpt_path PATH           go on from (fit) or evaluate a checkpoint; "last" is the newest
  --run.grace_seconds        what SIGTERM leaves to finish the RL step (exit code 75)
  --run.name, --run.root     where the run is kept: runs/NAME/version_N
  --print_config             print the whole config instead of running
  --help                     after a subcommand: all options
  --model.algorithm.help CLASS_PATH
                             after a subcommand: the options of a class

Examples:
  gtpo-lit fit --config configs/quickstart.yaml
  gtpo-lit fit --config configs/quickstart.yaml --config configs/algorithm/grpo_s.yaml
  gtpo-lit fit --config configs/quickstart.yaml --model.optimizer.lr=1e-4 --ckpt_path last
  gtpo-lit credit --rollouts step_000010.parquet --algorithms gtpo,grpo_s,dapo

GTPO_LIT_TRACEBACK=1 in the environment shows where an error comes from.
"""

TIPS = ("Tip:", "GPU available", "TPU available", "max_epochs=", "LOCAL_RANK", "to estimate")
EXPECTED_WARNINGS = (
    ".*does not have many workers.*",
    ".*Checkpoint directory .* exists and is not empty.*",
    ".*module\\(s\\) in eval mode at the start of training.*",
    ".*Trying to infer the `batch_size`.*",
    ".*isinstance\\(treespec, LeafSpec\\).*",
    # Every rank holds the rollouts of all ranks, so these are equal already.
    ".*self.log\\('(train|val|test|time)/.*sync_dist.*",
)


def main(args: list[str] | None = None) -> None:
    """Run a subcommand.

    What is wrong with what was asked for ends with one line on stderr and exit code 2; what goes
    wrong once work has begun keeps its traceback.
    """
    given = sys.argv[1:] if args is None else args
    if not given or given[0] in ("-h", "--help"):
        # Answered before the imports, which take seconds.
        print(HELP, end="", file=sys.stdout if given else sys.stderr)
        raise SystemExit(0 if given else 2)
    quiet()
    if given[0] == "credit":
        from gtpo_lit.offline_credit.command import main as credit

        _without_training(credit, given[1:])
        return
    if given[0] == "consolidate":
        from gtpo_lit.consolidate import main as consolidate

        _without_training(consolidate, given[1:])
        return
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    from gtpo_lit.lightning_cli import GtpoCLI, StartMark
    from gtpo_lit.preemption import Preempted
    from gtpo_lit.strict_parser import report, traceback_wanted

    mark = StartMark()
    try:
        GtpoCLI(args=args, mark=mark)
    except (ValueError, OSError, ImportError, MisconfigurationException) as error:
        if mark.begun or traceback_wanted():
            raise
        if mark.run_logger is not None:
            mark.run_logger.abandon()
        report(str(error))
        raise SystemExit(2) from None
    except Preempted as end:
        if end.together:
            leave_process_group()
        raise
    leave_process_group()


def leave_process_group() -> None:
    """End what the ranks share while Python is whole; all ranks must be out of their collectives.

    A thread of gloo that still holds a tensor when the interpreter goes aborts the process, and a
    run that has done all its work ends with a signal for an exit code.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def _without_training(command: Callable[[Sequence[str]], None], given: list[str]) -> None:
    from gtpo_lit.strict_parser import report, traceback_wanted

    try:
        command(given)
    except (ValueError, OSError) as error:
        if traceback_wanted():
            raise
        report(str(error))
        raise SystemExit(2) from None


def quiet() -> None:
    """Keep tips and notes of the libraries off the screen; warnings about the run stay."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    logging.getLogger("lightning.pytorch.utilities.rank_zero").addFilter(_is_no_tip)
    logging.getLogger("lightning.fabric.utilities.seed").setLevel(logging.WARNING)
    for message in EXPECTED_WARNINGS:
        warnings.filterwarnings("ignore", message=message)


def _is_no_tip(record: logging.LogRecord) -> bool:
    return not any(text in record.getMessage() for text in TIPS)


def __getattr__(name: str) -> Any:
    """`GtpoCLI` is found here, too, but imported only when asked for."""
    if name == "GtpoCLI":
        from gtpo_lit.lightning_cli import GtpoCLI

        return GtpoCLI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

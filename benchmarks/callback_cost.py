"""What all callbacks together cost, with and without them in turn, in one run.

    python -m benchmarks.callback_cost
    python -m benchmarks.callback_cost --policy models/smollm2 --tokens 16 --chat

One run trains with a learning rate of 0 on the same problems and random streams in every RL step,
so that each step does the same work. Blocks of steps with all callbacks on and off follow each
other; which comes first changes from pair to pair. Callbacks that work every so often do so once a
block. Beside the paired difference, which carries the noise of the machine, the time within the
callbacks' own hooks is measured; what they add between hooks, such as more columns to write, is in
the difference only.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer

import callbacks
from benchmarks.paired import Measurement, table
from gtpo_lit.algorithms import GTPO
from gtpo_lit.cli import quiet
from gtpo_lit.datamodule import RolloutDataModule
from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.module import PolicyModule
from gtpo_lit.policy import PolicySpec
from gtpo_lit.run_logger import RunLogger
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.tasks import ChainSource, ExactReward, PromptTemplate, WeightedReward
from gtpo_lit.trainer_rules import TRAINER_DEFAULTS
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings

HOOKS = (
    *("on_train_epoch_start", "on_train_batch_start", "on_train_batch_end"),
    *("on_before_optimizer_step", "on_train_epoch_end", "on_train_start", "on_train_end"),
)
OFF, ON = "none", "all"


class SameWork(TransformersSampler):
    """Gives each prompt the same random streams in every RL step."""

    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """Sample with seeds that are a function of the place alone."""
        again = [
            SampleRequest(
                prompt_ids=request.prompt_ids,
                seeds=tuple(range(1000 * place, 1000 * place + len(request.seeds))),
            )
            for place, request in enumerate(requests)
        ]
        return super().generate(again, settings)


class Switch(Callback):
    """Hands hooks on to the callbacks in every other block of steps, and times everything."""

    def __init__(self, watched: Sequence[Callback], block: int) -> None:
        """Nothing is measured yet; block 0 warms up."""
        self.watched = watched
        self.block = block
        self.within: dict[str, float] = {}
        """Seconds within the hooks of each callback in this block."""
        self.found: list[tuple[int, str, float, float, dict[str, float]]] = []
        """Block, variant, seconds, CPU seconds, and seconds within hooks by callback."""
        self._begun = (0.0, 0.0)

    def variant(self, step: int) -> str:
        """Whether a step, from 0 on, has callbacks: off, on, on, off, and so on."""
        return (OFF, ON, ON, OFF)[step // self.block % 4]

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Set all of them up."""
        for one in self.watched:
            one.setup(trainer, pl_module, stage)

    def hand_on(self, hook: str, trainer: Trainer, *given: Any) -> None:
        """Call a hook of all callbacks, if it is their turn."""
        if self.variant(trainer.current_epoch) == ON:
            for one in self.watched:
                start, name = time.perf_counter(), type(one).__name__
                getattr(one, hook)(trainer, *given)
                self.within[name] = self.within.get(name, 0.0) + time.perf_counter() - start

    def close(self, block: int) -> None:
        """End a block here, and begin the next one."""
        now = time.perf_counter(), time.process_time()
        if block >= 0:
            spent = [after - before for after, before in zip(now, self._begun, strict=True)]
            variant = self.variant(block * self.block)
            self.found.append((block, variant, spent[0], spent[1], self.within))
            print(f"block {block}, {variant}: {spent[0]:.2f} s", file=sys.stderr, flush=True)
        self.within = {}
        self._begun = now


def _hook(name: str) -> Callable[..., None]:
    def run(self: Switch, trainer: Trainer, *given: Any) -> None:
        starts = name == "on_train_epoch_start" and trainer.current_epoch % self.block == 0
        if starts or name == "on_train_end":
            self.close(trainer.current_epoch // self.block - 1)
        self.hand_on(name, trainer, *given)

    return run


for _name in HOOKS:
    setattr(Switch, _name, _hook(_name))


def all_callbacks(every: int) -> list[Callback]:
    """Every callback that watches training steps; those that work now and then do so once a block.

    `PassAtK` and `RunSummary` work around validations, which this run has none of, and `ExportHF`
    and `CreditViewer` write files of their own kind when they are asked to.
    """
    return [
        callbacks.EntropyMonitor(),
        callbacks.EntropyRebound(),
        callbacks.ResponseLengthMonitor(),
        callbacks.ShapingGuard(),
        callbacks.Throughput(),
        callbacks.StepHistograms(every=every),
        callbacks.SampleTable(every=every),
        callbacks.RolloutRecorder(every_n_steps=every),
    ]


def measure(options: argparse.Namespace, root: Path) -> Switch:
    """Run, with the first pair as a warm-up."""
    watched = Switch(all_callbacks(options.block), options.block)
    run_logger = RunLogger(str(root), "cost")
    trainer = Trainer(
        **TRAINER_DEFAULTS
        | {
            "accelerator": "cpu",
            "max_epochs": 2 * options.block * (options.pairs + 1),
            "logger": [run_logger, RunTensorBoardLogger(run_logger)],
            "callbacks": [watched],
            "num_sanity_val_steps": 0,
            "accumulate_grad_batches": options.micro_batches,
            "enable_progress_bar": False,
            "enable_checkpointing": False,
        }
    )
    module = PolicyModule(
        algorithm=GTPO(),
        policy=PolicySpec(path=options.policy, chunk_size=options.chunk_size),
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.0),
    )
    data = RolloutDataModule(
        problems=ChainSource(split="train", size=options.problems),
        reward=WeightedReward(accuracy=ExactReward(extract="last_equals")),
        prompt=PromptTemplate(chat=options.chat),
        sampler=SameWork(requests_per_batch=options.problems),
        group_size=options.group_size,
        problems_per_step=options.problems,
        micro_batches=options.micro_batches,
        sampling=SamplingSettings(max_tokens=options.tokens),
    )
    with (root / "screen.txt").open("w") as screen, contextlib.redirect_stdout(screen):
        trainer.fit(module, datamodule=data)
    return watched


def measurements(watched: Switch, block: int) -> list[Measurement]:
    """Seconds a step, the warm-up pair left out; rounds are pairs, without callbacks first."""
    kept = sorted(watched.found[2:], key=lambda one: one[1] != OFF)
    return [
        Measurement("step", number // 2, variant, seconds / block, cpu / block)
        for number, variant, seconds, cpu, _ in kept
    ]


def within_percent(watched: Switch) -> dict[str, float]:
    """Time within each callback's hooks as a percentage of the rest of those steps."""
    on = [one for one in watched.found[2:] if one[1] == ON]
    within = {name: sum(one[4].get(name, 0.0) for one in on) for name in on[0][4]}
    rest = sum(one[2] for one in on) - sum(within.values())
    return {name: 100 * seconds / rest for name, seconds in within.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the CSV and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="embedded:chains", help="folder, or embedded:<name>")
    parser.add_argument("--chat", action="store_true", help="prompts by the chat template")
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--group_size", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=40, help="longest response")
    parser.add_argument("--micro_batches", type=int, default=2)
    parser.add_argument("--chunk_size", type=int, default=256, help="rows of the head at a time")
    parser.add_argument("--block", type=int, default=10, help="steps of one variant at a time")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--core", type=int, default=0, help="the one core to run on")
    parser.add_argument("--output", type=Path, default=Path("callback_cost.csv"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    quiet()
    print(
        f"{options.policy}, {options.problems} x {options.group_size} sequences of at most "
        f"{options.tokens} tokens, blocks of {options.block} steps, torch {torch.__version__}, "
        f"1 thread on core {options.core}, load {os.getloadavg()[0]:.2f} at the start",
        file=sys.stdout,
        flush=True,
    )
    with tempfile.TemporaryDirectory() as root:
        watched = measure(options, Path(root))
    found = measurements(watched, options.block)
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Measurement._fields)
        writer.writerows(found)
    print(table(found))
    within = within_percent(watched)
    parts = ", ".join(f"{name} {percent:.2f}" for name, percent in within.items())
    print(f"Within their own hooks: {sum(within.values()):.2f} % of the rest of a step ({parts}).")
    share = sum(one.cpu_seconds for one in found) / sum(one.seconds for one in found)
    print(f"The process had its core for {share:.1%} of the time that it measured.")


if __name__ == "__main__":
    main()

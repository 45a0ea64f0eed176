"""A training run of a second, for tests of what watches a run; also a script to be killed.

One parameter `w` is pulled to 1. Each RL step has two micro-batches; its rollouts and the graded
validation problems are functions of (w, step) alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule, LightningModule, Trainer

from callbacks import EntropyMonitor, PassAtK, ResponseLengthMonitor, RunSummary, StepProgressBar
from gtpo_lit.loggers import RunTensorBoardLogger
from gtpo_lit.run_checkpoint import RunCheckpoint
from gtpo_lit.run_logger import RunLogger
from gtpo_lit.types import Completion, Graded, Problem, Rollouts


class SmallModule(LightningModule):
    def __init__(self, die_in_step: int | None = None) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor(0.0))
        self.die_in_step = die_in_step

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        if self.die_in_step == self.current_epoch + 1 and batch_idx == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        loss = (self.w - batch).square().mean()
        self.log("train/loss", loss, on_step=True, on_epoch=True, batch_size=1)
        self.log("time/step", float(os.getpid()), on_step=False, on_epoch=True, batch_size=1)
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None: ...

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None: ...

    def transfer_batch_to_device(self, batch: Any, device: Any, dataloader_idx: int) -> Any:
        return batch

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.5)


class Step:
    def __init__(self, data: SmallData) -> None:
        self.data = data

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Any:
        trainer = self.data.trainer
        step = trainer.current_epoch
        w = trainer.lightning_module.w.detach().clone()
        self.data.rollouts = make_rollouts(float(w), step)
        for _ in range(2):
            yield torch.tensor([1.0 + 0.1 * step])


class SmallData(LightningDataModule):
    def __init__(self) -> None:
        super().__init__()
        self.validation_names = ["a", "b"]
        self.rollouts: Rollouts | None = None

    def train_dataloader(self) -> Any:
        return Step(self)

    def val_dataloader(self) -> Any:
        return [Validation(self, "a", 5), Validation(self, "b", 2)]

    def test_dataloader(self) -> Any:
        return self.val_dataloader()


class Validation:
    """Problems of this rank, two a batch, filled up with repeats to equal numbers on all ranks."""

    def __init__(self, data: SmallData, name: str, size: int) -> None:
        self.data, self.name = data, name
        world, rank = data.trainer.world_size, data.trainer.global_rank
        each = -(-size // world)
        self.mine = [(rank + world * place) % size for place in range(each)]

    def __len__(self) -> int:
        return -(-len(self.mine) // 2)

    def __iter__(self) -> Any:
        w = float(self.data.trainer.lightning_module.w)
        for start in range(0, len(self.mine), 2):
            yield [grade(self.name, index, w) for index in self.mine[start : start + 2]]


def grade(name: str, index: int, w: float) -> Graded:
    """Four samples; the better the policy, the more are right, on more problems."""
    right = max(0, min(4, int(8 * w) - index))
    completions = tuple(
        Completion(
            token_ids=tuple(range(index + sample + 1)),
            text="",
            finish_reason="length" if sample == 3 else "stop",
        )
        for sample in range(4)
    )
    correct = tuple(sample < right for sample in range(4))
    return Graded(
        problem=Problem(id=f"{name}-{index}", question="same text", answer="x"),
        completions=completions,
        reward=tuple(map(float, correct)),
        correct=correct,
    )


def make_rollouts(w: float, step: int) -> Rollouts:
    """Four sequences of up to three tokens; none is right before w passes 0.3."""
    mask = torch.tensor([[1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 1]], dtype=torch.bool)
    correct = torch.tensor([w > 0.3, w > 0.6, False, False])
    entropy = torch.arange(12.0).reshape(4, 3) * mask * (1 - w / 2)
    shape = mask.shape
    return Rollouts(
        input_ids=torch.zeros(shape, dtype=torch.long),
        attention_mask=mask,
        mask=mask,
        loss_mask=mask & torch.tensor([True, False, True, False])[:, None],
        group=torch.zeros(4, dtype=torch.long),
        reward=correct.float(),
        correct=correct,
        truncated=torch.tensor([False, True, False, False]),
        temperature=1.0,
        logp_old=torch.zeros(shape),
        entropy=entropy + step * mask,
    )


def make_trainer(
    root: str | Path,
    *,
    steps: int = 4,
    ckpt_path: str | Path | None = None,
    devices: int = 1,
    every_n_epochs: int = 1,
    keep_last: int | None = None,
    curves: bool = False,
    extra: tuple[Any, ...] = (),
    saver: bool = True,
    **options: Any,
) -> Trainer:
    """A trainer with everything that watches a run."""
    run_logger = RunLogger(str(root), "small", ckpt_path=ckpt_path and str(ckpt_path))
    warnings.filterwarnings("ignore", module="lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    settings = {
        "accelerator": "cpu",
        "devices": devices,
        "strategy": "ddp" if devices > 1 else "auto",
        "max_epochs": steps,
        "num_sanity_val_steps": -1,
        "check_val_every_n_epoch": 2,
        "use_distributed_sampler": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "logger": [run_logger, RunTensorBoardLogger(run_logger)],
        "callbacks": [
            EntropyMonitor(),
            ResponseLengthMonitor(),
            PassAtK(),
            StepProgressBar(),
            RunSummary(curves=curves),
            *([RunCheckpoint(every_n_epochs=every_n_epochs, keep_last=keep_last)] if saver else []),
            *extra,
        ],
    }
    return Trainer(**{**settings, **options})


def run(root: str | Path, *, die_in_step: int | None = None, **options: Any) -> Trainer:
    """Train and return the trainer."""
    trainer = make_trainer(root, **options)
    ckpt_path = options.get("ckpt_path")
    trainer.fit(SmallModule(die_in_step), datamodule=SmallData(), ckpt_path=ckpt_path)
    return trainer


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--ckpt_path")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--die_in_step", type=int)
    run(**vars(parser.parse_args()))

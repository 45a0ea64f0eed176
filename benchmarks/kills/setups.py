"""What is killed: one small run, and what may be added to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Options on top of `CONFIG`."""

    options: tuple[str, ...] = ()
    """Of the command line."""
    ranks: int = 1
    """How many processes they ask for."""
    sharded: bool = False
    """Whether checkpoints are folders of shards."""


def _overlay(name: str) -> str:
    return f"--config=configs/{name}.yaml"


SETUPS: dict[str, Setup] = {
    "single": Setup(),
    "ddp": Setup(options=(_overlay("strategy/ddp"),), ranks=2),
    "fsdp2": Setup(options=(_overlay("strategy/fsdp2"),), ranks=2, sharded=True),
    "fsdp": Setup(options=(_overlay("strategy/fsdp"),), ranks=2),
    "lora": Setup(options=(_overlay("policy/lora"),)),
}
"""By name; one line adds a set-up."""

SET = "chains"
CONFIG = {
    "seed_everything": 0,
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 4,
        "check_val_every_n_epoch": 2,
        "accumulate_grad_batches": 1,
        "gradient_clip_val": 1.0,
        "callbacks": [
            {"class_path": "callbacks.PassAtK"},
            {"class_path": "callbacks.RunSummary", "init_args": {"curves": False}},
            {
                "class_path": "gtpo_lit.run_checkpoint.RunCheckpoint",
                "init_args": {"keep_last": 2, "best_of": f"val/{SET}/pass@1"},
            },
        ],
    },
    "model": {
        "policy": {"path": "embedded:chains"},
        "algorithm": {"class_path": "gtpo_lit.algorithms.GTPO"},
        "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
    },
    "data": {
        "problems": {"class_path": "gtpo_lit.tasks.ChainSource", "init_args": {"size": 24}},
        "validation": {
            "chains": {
                "class_path": "gtpo_lit.tasks.ChainSource",
                "init_args": {"split": "validation", "size": 2},
            }
        },
        "reward": {
            "accuracy": {
                "class_path": "gtpo_lit.tasks.ExactReward",
                "init_args": {"extract": "last_equals"},
            }
        },
        "group_size": 2,
        "problems_per_step": 2,
        "micro_batches": 2,
        "sampling": {"max_tokens": 8},
        "validation_samples": 2,
    },
}

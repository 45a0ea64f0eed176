"""Runs of the command line on a tiny config."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]

TINY = {
    "seed_everything": 0,
    "trainer": {
        "accelerator": "cpu",
        "devices": 1,
        "max_epochs": 2,
        "accumulate_grad_batches": 2,
        "gradient_clip_val": 1.0,
        "callbacks": [
            {"class_path": f"callbacks.{name}"}
            for name in (
                "EntropyMonitor",
                "ResponseLengthMonitor",
                "ShapingGuard",
                "PassAtK",
                "RunSummary",
                "StepProgressBar",
            )
        ],
    },
    "model": {
        "policy": {"path": "embedded:chains"},
        "algorithm": {"class_path": "gtpo_lit.algorithms.GTPO"},
        "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 1e-3}},
    },
    "data": {
        "problems": {
            "class_path": "gtpo_lit.tasks.ChainSource",
            "init_args": {"split": "train", "size": 24},
        },
        "validation": {
            "chains": {
                "class_path": "gtpo_lit.tasks.ChainSource",
                "init_args": {"split": "validation", "size": 4},
            }
        },
        "reward": {
            "accuracy": {
                "class_path": "gtpo_lit.tasks.ExactReward",
                "init_args": {"extract": "last_equals"},
            }
        },
        "group_size": 4,
        "problems_per_step": 4,
        "micro_batches": 2,
        "sampling": {"max_tokens": 26},
        "sampler": {
            "class_path": "gtpo_lit.sampling.transformers.TransformersSampler",
            "init_args": {"requests_per_batch": 2},
        },
        "validation_samples": 4,
    },
}


class Runs:
    """Runs in one folder, by their options on top of the tiny config."""

    def __init__(self, folder):
        self.root = folder / "runs"
        self.config = folder / "tiny.yaml"
        self.config.write_text(yaml.safe_dump(TINY))

    def arguments(self, *options, command="fit"):
        return [command, f"--config={self.config}", f"--run.root={self.root}", *options]

    def __call__(self, *options, command="fit"):
        """In this process."""
        from gtpo_lit.cli import main

        main(self.arguments(*options, command=command))

    def apart(self, *options, command="fit", timeout=240, **extra):
        """In a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "gtpo_lit", *self.arguments(*options, command=command)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=timeout,
            check=False,
            **extra,
        )

    def version(self, number=0, name="run"):
        return self.root / name / f"version_{number}"

    def metrics(self, number=0, name="run"):
        return (self.version(number, name) / "metrics.csv").read_text()

    def rows(self, number=0, name="run"):
        return list(csv.DictReader(self.metrics(number, name).splitlines()))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gtpo-lit"])
    return Runs(tmp_path)

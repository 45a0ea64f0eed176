"""What is logged about a whole RL step, from the rollouts of all ranks."""

from __future__ import annotations

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.types import Rollouts


def step_metrics(rollouts: Rollouts, algorithm: Algorithm) -> dict[str, float]:
    """`train/...` metrics of a step that every algorithm has, and the algorithm's diagnostics."""
    reward = rollouts.reward.double()
    metrics = {
        "train/reward/mean": float(reward.mean()),
        "train/reward/std": float(reward.std(correction=0)),
        "train/correct/fraction": float(rollouts.correct.double().mean()),
    }
    if rollouts.logp_sampler is not None:
        # Where the engine holds the same weights this is rounding; more means a stale engine.
        gap = (rollouts.logp_old - rollouts.logp_sampler).abs()[rollouts.mask]
        metrics["train/sampler_gap/max"] = float(gap.max()) if gap.numel() else 0.0
    for name, value in algorithm.diagnostics(rollouts).items():
        metrics[f"train/{name}"] = value
    return metrics

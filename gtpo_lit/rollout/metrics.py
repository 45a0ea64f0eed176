"""What is logged about a whole RL step, from the rollouts of all ranks."""

from __future__ import annotations

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.rollout.correction import MismatchCorrection, gap_metrics
from gtpo_lit.types import Rollouts


def step_metrics(
    rollouts: Rollouts, algorithm: Algorithm, correction: MismatchCorrection | None = None
) -> dict[str, float]:
    """`train/...` metrics of a step: what every algorithm has, the sampler's gap, diagnostics."""
    reward = rollouts.reward.double()
    metrics = {
        "train/reward/mean": float(reward.mean()),
        "train/reward/std": float(reward.std(correction=0)),
        "train/correct/fraction": float(rollouts.correct.double().mean()),
    }
    if rollouts.penalty is not None:
        penalty = rollouts.penalty.double()
        metrics["train/length/penalty"] = float(penalty.mean())
        metrics["train/length/penalised_fraction"] = float((penalty < 0).double().mean())
    metrics |= gap_metrics(rollouts)
    if correction is not None:
        metrics |= correction.metrics(rollouts)
    for name, value in algorithm.diagnostics(rollouts).items():
        metrics[f"train/{name}"] = value
    return metrics

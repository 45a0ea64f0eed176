"""What is logged about a whole RL step, from the rollouts of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.rollout.correction import MismatchCorrection, gap_metrics
from gtpo_lit.types import Graded, Rollouts


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


def component_sums(graded: Sequence[Graded]) -> dict[str, tuple[float, int]]:
    """Sum and count of every reward term over the completions of one rank."""
    sums: dict[str, tuple[float, int]] = {}
    for item in graded:
        for name, values in item.components.items():
            total, count = sums.get(name, (0.0, 0))
            sums[name] = (total + sum(values), count + len(values))
    return sums


def component_means(ranks: Sequence[dict[str, tuple[float, int]]]) -> dict[str, float]:
    """`train/reward/<term>`: the mean score of every reward term over all ranks."""
    means = {}
    for name in sorted({name for sums in ranks for name in sums}):
        parts = [sums[name] for sums in ranks if name in sums]
        means[f"train/reward/{name}"] = sum(part[0] for part in parts) / sum(
            part[1] for part in parts
        )
    return means

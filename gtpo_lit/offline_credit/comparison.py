"""What an algorithm's credit is like, next to GRPO's on the same rollouts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from gtpo_lit.algorithms import DAPO, Algorithm
from gtpo_lit.functional.masked import masked_mean
from gtpo_lit.functional.selection import top_entropy_mask
from gtpo_lit.offline_credit.correlation import correlation
from gtpo_lit.recorded import RecordedStep

PIVOTAL = 0.2
# Figures that shaping algorithms log about themselves (docs/metrics.md).
_OWN = ("effective_sequences", "shaped_fraction", "conservation_gap")


@dataclass(frozen=True, kw_only=True, eq=False)
class Credit:
    """A recorded step under one algorithm."""

    step: RecordedStep
    """The step with that algorithm's advantages, shaped rewards, name and settings."""
    figures: dict[str, float | None]
    """Figures by name; None where one cannot be told."""


def credit_under(step: RecordedStep, algorithm: Algorithm) -> Credit:
    """Compute a recorded step's credit anew.

    GRPO and DAPO give the same advantages, z-scores of the total rewards in each group; they are
    what the figures compare with. All figures are over the tokens that the policy wrote:

    * `grpo_correlation`: Pearson's, of the token advantages; None where one of both is constant.
    * `sign_flips`, `sign_flips_correct`, `sign_flips_wrong`: share of tokens (of right, of wrong
      sequences) whose advantage has the opposite sign; one of 0 is no flip.
    * `no_credit`: share of tokens with advantage 0.
    * `mean_size`: mean of abs(A).
    * `pivotal_share`: share of sum(abs(A)) on the 20 % of tokens with the highest entropy.
    * `effective_sequences`, `shaped_fraction`, `conservation_gap`: as `train/shaping/...`, None
      for algorithms that do not shape.

    Raises:
        ValueError: if the algorithm reads entropies and the step was recorded without.
    """
    rollouts = step.rollouts
    entropy = rollouts.entropy[rollouts.mask]
    if algorithm.uses_entropy and bool(entropy.isnan().any()):
        raise ValueError(
            f"{type(algorithm).__name__} reads entropies, and the run recorded none "
            "(data.entropy_source: none)"
        )
    credited = rollouts.replace(advantages=algorithm.advantages(rollouts))
    kind = type(algorithm)
    under = dataclasses.replace(
        step,
        algorithm=f"{kind.__module__}.{kind.__qualname__}",
        settings=algorithm.settings,
        rollouts=credited,
        shaped=algorithm.shaped(credited),
    )
    plain = dataclasses.replace(
        step, rollouts=rollouts.replace(advantages=DAPO().advantages(rollouts))
    )
    own = algorithm.diagnostics(credited)
    figures = _against(under.token_advantages, plain.token_advantages, step)
    figures |= {name: own.get(f"shaping/{name}") for name in _OWN}
    return Credit(step=under, figures=figures)


def flipped(credit: Tensor, plain: Tensor, seen: Tensor) -> float:
    """Share of the tokens in `seen` whose two advantages differ in sign; 0 has no sign.

    >>> seen = torch.tensor([True, True, True, False])
    >>> flipped(torch.tensor([1.0, -1.0, 0.0, -1.0]), torch.tensor([1.0, 2.0, 1.0, 1.0]), seen)
    0.3333333333333333
    """
    opposite = (credit.sign() * plain.sign() < 0).double()
    return float(masked_mean(opposite, seen))


def _against(credit: Tensor, plain: Tensor, step: RecordedStep) -> dict[str, float | None]:
    mask, correct = step.rollouts.mask, step.rollouts.correct[:, None]
    return {
        "grpo_correlation": correlation(credit[mask], plain[mask]),
        "sign_flips": flipped(credit, plain, mask),
        "sign_flips_correct": flipped(credit, plain, mask & correct),
        "sign_flips_wrong": flipped(credit, plain, mask & ~correct),
        "no_credit": float(masked_mean((credit == 0).double(), mask)),
        "mean_size": float(masked_mean(credit.double().abs(), mask)),
        "pivotal_share": _pivotal_share(credit, step),
    }


def _pivotal_share(credit: Tensor, step: RecordedStep) -> float | None:
    mask, entropy = step.rollouts.mask, step.rollouts.entropy
    size = torch.where(mask, credit.double().abs(), 0.0)
    if not size.sum() or bool(entropy[mask].isnan().any()):
        return None
    pivotal = top_entropy_mask(entropy, mask, PIVOTAL)
    return float(size[pivotal].sum() / size.sum())

"""What entropy shaping did to a step's credit, for GTPO and GRPO-S alike."""

from __future__ import annotations

import torch
from torch import Tensor

from gtpo_lit.functional.advantages import normalize_sequences
from gtpo_lit.functional.conservation import conservation_gap, effective_members, sign_flips
from gtpo_lit.types import Rollouts

# Advantages are of order one; what differs by less than this is the same credit.
SAME_CREDIT = 1e-4


def shaping_diagnostics(
    rollouts: Rollouts,
    *,
    shaped: Tensor,
    shares: Tensor,
    alive: Tensor,
    weights: tuple[float, float],
    saturated: Tensor,
) -> dict[str, float]:
    """Numbers under `shaping/`.

    Args:
        rollouts: a whole step with its advantages.
        shaped: [B, T] token rewards or [B, 1] sequence rewards, before penalties.
        shares: of the same shape.
        alive: bool of the same shape: what shares.
        weights: of the outcome and of the entropy share.
        saturated: bool of the same shape: entropies that floor or clip moved.
    """
    correct, group, mask = rollouts.correct, rollouts.group, rollouts.mask
    gap = conservation_gap(
        shaped, alive, rollouts.reward, correct, group, weight1=weights[0], weight2=weights[1]
    )
    metrics = {
        "shaping/conservation_gap": gap,
        "shaping/effective_sequences": effective_members(shares, alive, correct, group),
        "shaping/saturated_fraction": saturated.sum() / alive.sum().clamp(min=1),
    }
    if rollouts.advantages is not None:
        credit = rollouts.advantages
        credit = credit if credit.ndim == 2 else credit[:, None].expand_as(mask)
        plain = normalize_sequences(torch.where(correct, 1.0, -1.0), group)
        differs = (credit - plain[:, None]).abs() > SAME_CREDIT
        metrics |= {
            "shaping/sign_flips_correct": sign_flips(credit, mask, correct, 1.0),
            "shaping/sign_flips_wrong": sign_flips(credit, mask, ~correct, -1.0),
            "shaping/changed_fraction": (differs & mask).sum() / mask.sum().clamp(min=1),
        }
    return {name: float(value) for name, value in metrics.items()}

"""What the page's scripts get: texts as JSON, numbers as the bytes of their arrays."""

from __future__ import annotations

import base64
import math
from typing import Any

import torch
from torch import Tensor

from gtpo_lit.functional.selection import top_entropy_mask
from gtpo_lit.recorded import RecordedStep
from gtpo_lit.recorded.recorded_step import RecordedSequence

# Share of tokens called pivotal: the forking tokens of arXiv 2506.01939.
PIVOTAL = 0.2


def page_data(step: RecordedStep) -> dict[str, Any]:
    """Plain values: `about` the step, its `sequences`, and per-token arrays of all of them in turn.

    Arrays are little-endian base64: `ids` int32, `flags` uint8 (1 written by the policy, 2 gets
    gradient, 4 pivotal), the `numbers` float32, or None where the step has none. A token is pivotal
    if its entropy is among the top 20 % of the step.
    """
    rollouts = step.rollouts
    real = rollouts.attention_mask[:, -rollouts.mask.shape[1] :]
    pivotal = _pivotal(rollouts.entropy, rollouts.mask)
    flags = rollouts.mask + 2 * rollouts.loss_mask.byte() + 4 * pivotal.byte()
    numbers = {
        "entropy": rollouts.entropy,
        "shaped": step.token_shaped,
        "advantage": step.token_advantages,
        "logp": rollouts.logp_old,
        "logp_sampler": rollouts.logp_sampler,
        "logp_ref": rollouts.logp_ref,
    }
    prompts = list(dict.fromkeys(row.prompt for row in step.sequences))
    places = {prompt: place for place, prompt in enumerate(prompts)}
    return {
        "about": {
            "step": step.step,
            "algorithm": step.algorithm,
            "settings": dict(step.settings),
            "temperature": rollouts.temperature,
            "pivotal_share": PIVOTAL,
        },
        "prompts": prompts,
        "sequences": [
            _sequence(step, row, sequence, places[sequence.prompt], int(real[row].sum()))
            for row, sequence in enumerate(step.sequences)
        ],
        "pieces": [list(sequence.pieces) for sequence in step.sequences],
        "ids": _bytes(rollouts.response_ids[real].int()),
        "flags": _bytes(flags[real].byte()),
        "numbers": {
            name: None if values is None else _bytes(values[real].float())
            for name, values in numbers.items()
        },
    }


def _pivotal(entropy: Tensor, mask: Tensor) -> Tensor:
    if not mask.any() or bool(entropy[mask].isnan().any()):
        return torch.zeros_like(mask)
    return top_entropy_mask(entropy, mask, PIVOTAL)


def _sequence(
    step: RecordedStep, row: int, sequence: RecordedSequence, prompt: int, tokens: int
) -> dict[str, Any]:
    rollouts = step.rollouts
    penalty = None if rollouts.penalty is None else _number(rollouts.penalty[row])
    return {
        "problem": sequence.problem,
        "source": sequence.source,
        "reference": sequence.reference,
        "answer": sequence.answer,
        "group": int(rollouts.group[row]),
        "sample": sequence.sample,
        "prompt": prompt,
        "tokens": tokens,
        "reward": _number(rollouts.reward[row]),
        "penalty": penalty,
        "correct": bool(rollouts.correct[row]),
        "truncated": bool(rollouts.truncated[row]),
    }


def _number(value: Tensor) -> float | str:
    # JSON knows no NaN and no infinity; the page shows such a number as it is written here.
    number = float(value)
    return number if math.isfinite(number) else str(number)


def _bytes(values: Tensor) -> str:
    array = values.contiguous().numpy()
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()

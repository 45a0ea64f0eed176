"""Graded completions as padded tensors, and the padding arithmetic that goes with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from gtpo_lit.types import Completion, Graded, Rollouts

# What lies under the padding is never read: masks decide, not token values.
PADDING_ID = 0


def collate(
    graded: Sequence[Graded],
    prompts: Sequence[Sequence[int]],
    groups: Sequence[int],
    *,
    temperature: float,
) -> Rollouts:
    """One row for each completion, groups in order, `logp_old` and `entropy` still zero.

    Masks come from the engine's token counts, never from token values, so that a padding id that
    equals an end token, or a second end token, changes nothing.

    Args:
        graded: problems with their completions; a completion must not be empty.
        prompts: token ids of each problem's prompt, as they were sampled from.
        groups: a unique integer for each problem drawn.
        temperature: at which the completions were sampled.
    """
    rows = [
        (item, place)
        for item, graded_item in enumerate(graded)
        for place in range(len(graded_item.completions))
    ]
    completions = [graded[item].completions[place] for item, place in rows]
    assert all(completion.token_ids for completion in completions), "an empty completion"
    width = max(len(prompts[item]) for item, _ in rows)
    depth = max(len(completion.token_ids) for completion in completions)
    input_ids = torch.full((len(rows), width + depth), PADDING_ID, dtype=torch.long)
    attention_mask = torch.zeros((len(rows), width + depth), dtype=torch.bool)
    for row, ((item, _), completion) in enumerate(zip(rows, completions, strict=True)):
        prompt, end = prompts[item], width + len(completion.token_ids)
        input_ids[row, width - len(prompt) : width] = torch.tensor(prompt)
        input_ids[row, width:end] = torch.tensor(completion.token_ids)
        attention_mask[row, width - len(prompt) : end] = True
    mask = attention_mask[:, width:].clone()
    return Rollouts(
        input_ids=input_ids,
        attention_mask=attention_mask,
        mask=mask,
        loss_mask=mask.clone(),
        group=torch.tensor([groups[item] for item, _ in rows], dtype=torch.long),
        reward=torch.tensor(
            [graded[item].reward[place] for item, place in rows], dtype=torch.float32
        ),
        correct=torch.tensor([graded[item].correct[place] for item, place in rows]),
        truncated=torch.tensor(
            [completion.finish_reason == "length" for completion in completions]
        ),
        temperature=temperature,
        logp_old=torch.zeros(mask.shape),
        entropy=torch.zeros(mask.shape),
        logp_sampler=_engine_values(completions, "logprobs", depth),
    )


def engine_entropy(graded: Sequence[Graded], depth: int) -> Tensor | None:
    """[B, T] float32: entropies that the engine reported, or nothing if it reported none."""
    completions = [completion for item in graded for completion in item.completions]
    return _engine_values(completions, "entropies", depth)


def _engine_values(completions: Sequence[Completion], field: str, depth: int) -> Tensor | None:
    values = [getattr(completion, field) for completion in completions]
    if any(value is None for value in values):
        return None
    table = torch.zeros((len(values), depth))
    for row, value in enumerate(values):
        table[row, : len(value)] = torch.tensor(value)
    return table


def concatenate(parts: Sequence[Rollouts]) -> Rollouts:
    """The rows of all parts, padded to one shape: prompts on the left, responses on the right.

    What one part lacks, such as log-probs of its sampler, the whole lacks.
    """
    widths = [part.input_ids.shape[1] - part.mask.shape[1] for part in parts]
    depths = [part.mask.shape[1] for part in parts]
    padded = [
        _pad(part, left=max(widths) - width, right=max(depths) - depth)
        for part, width, depth in zip(parts, widths, depths, strict=True)
    ]
    fields: dict[str, Tensor | None] = {}
    for item in dataclasses.fields(Rollouts):
        values = [getattr(part, item.name) for part in padded]
        if any(value is None for value in values):
            fields[item.name] = None
        elif isinstance(values[0], Tensor) and values[0].ndim > 0:
            fields[item.name] = torch.cat(values)
    return padded[0].replace(**fields)


def trim(rollouts: Rollouts) -> Rollouts:
    """Without the columns that are padding in every row; at least one response column stays."""
    depth = rollouts.mask.shape[1]
    width = rollouts.input_ids.shape[1] - depth
    real = rollouts.attention_mask.any(dim=0)
    left = int(real[:width].int().argmax()) if bool(real[:width].any()) else 0
    last = torch.nonzero(real[width:])
    right = depth - 1 - int(last.max()) if last.numel() else depth - 1
    return _pad(rollouts, left=-left, right=-right)


def _pad(rollouts: Rollouts, *, left: int, right: int) -> Rollouts:
    if left == 0 and right == 0:
        return rollouts
    changes: dict[str, Tensor] = {}
    for item in dataclasses.fields(Rollouts):
        value = getattr(rollouts, item.name)
        if not isinstance(value, Tensor) or value.ndim < 2:
            continue
        on_left = left if item.name in ("input_ids", "attention_mask") else 0
        fill = PADDING_ID if item.name == "input_ids" else 0
        changes[item.name] = pad(value, (on_left, right), value=fill)
    return rollouts.replace(**changes)

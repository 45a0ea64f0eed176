"""The columns of a file of recorded rollouts, from tensors and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gtpo_lit.recorded.arrays import flat_tensor, list_array, list_lengths, padded, real_places
from gtpo_lit.recorded.recorded_step import RecordedSequence, RecordedStep
from gtpo_lit.types import Rollouts

ABOUT = "gtpo_lit.recorded_rollouts"
FORMAT_VERSION = 1
# Columns that are fields of `Rollouts`.
_OF_SEQUENCES = ("group", "reward", "correct", "truncated", "penalty")
_OF_TOKENS = (
    "mask",
    "loss_mask",
    "entropy",
    "logp_old",
    "logp_ref",
    "logp_sampler",
    "correction",
)
_MAY_LACK = frozenset({"penalty", "logp_ref", "logp_sampler", "correction", "shaped"})
_WORDS = ("problem", "source", "reference", "prompt", "text", "answer")


def about_of(step: RecordedStep) -> dict[str, Any]:
    """What holds for all rows, as plain values."""
    assert step.rollouts.advantages is not None
    return {
        "format_version": FORMAT_VERSION,
        "step": step.step,
        "temperature": step.rollouts.temperature,
        "algorithm": step.algorithm,
        "settings": dict(step.settings),
        "advantage_level": _level(step.rollouts.advantages),
        "shaped_level": None if step.shaped is None else _level(step.shaped),
    }


def table_of(step: RecordedStep) -> Any:
    """A `pyarrow.Table` with one row a sequence."""
    import pyarrow

    rollouts = step.rollouts
    width = rollouts.input_ids.shape[1] - rollouts.mask.shape[1]
    in_prompt, in_response = rollouts.attention_mask.split([width, rollouts.mask.shape[1]], dim=1)
    text, whole = pyarrow.large_string(), pyarrow.int32()

    def ids(tokens: Tensor, real: Tensor) -> Any:
        return list_array(tokens, real).cast(pyarrow.large_list(whole))

    def numbers(values: Tensor | None) -> Any:
        if values is None:
            return pyarrow.nulls(len(step.sequences), pyarrow.large_list(pyarrow.float32()))
        return list_array(values, in_response)

    def flat(values: Tensor | None) -> Any:
        if values is None:
            return pyarrow.nulls(len(step.sequences), pyarrow.float32())
        return pyarrow.array(values.numpy())

    def words(name: str) -> Any:
        return pyarrow.array([getattr(row, name) for row in step.sequences], text)

    return pyarrow.table(
        {
            "step": pyarrow.array([step.step] * len(step.sequences), whole),
            **{name: words(name) for name in _WORDS},
            "sample": pyarrow.array([row.sample for row in step.sequences], whole),
            "length": pyarrow.array(rollouts.length.tolist(), whole),
            **{name: flat(getattr(rollouts, name)) for name in _OF_SEQUENCES},
            "prompt_ids": ids(rollouts.input_ids[:, :width], in_prompt),
            "token_ids": ids(rollouts.response_ids, in_response),
            "pieces": pyarrow.array(
                [list(row.pieces) for row in step.sequences], pyarrow.large_list(text)
            ),
            **{name: numbers(getattr(rollouts, name)) for name in _OF_TOKENS},
            "shaped": numbers(step.token_shaped),
            "advantage": numbers(step.token_advantages),
        }
    )


def step_of(table: Any, about: Mapping[str, Any], path: str) -> RecordedStep:
    """The step back from its table.

    Raises:
        ValueError: for a column or an entry that is missing or of another shape, naming the file.
    """
    expected = ("sample", "prompt_ids", "token_ids", "pieces", "shaped", "advantage")
    wanted = {*_WORDS, *_OF_SEQUENCES, *_OF_TOKENS, *expected}
    if missing := sorted(wanted - set(table.column_names)):
        raise ValueError(f"{path} lacks the columns {', '.join(missing)}")
    names = ("step", "temperature", "algorithm", "settings", "advantage_level", "shaped_level")
    if missing := sorted(set(names) - about.keys()):
        raise ValueError(f"{path}: its {ABOUT} entry lacks {', '.join(missing)}")
    columns = {name: table[name].combine_chunks() for name in wanted}
    lengths = list_lengths(columns["token_ids"])
    for name in (*_OF_TOKENS, "pieces", "shaped", "advantage"):
        absent = columns[name].null_count == len(lengths) and name in _MAY_LACK
        if not absent and list_lengths(columns[name]) != lengths:
            raise ValueError(f"{path}: rows of {name!r} and of 'token_ids' differ in length")
    rollouts = _rollouts(columns, float(about["temperature"]))
    mask = rollouts.mask
    shaped = padded(columns["shaped"], mask.shape[1])
    advantages = padded(columns["advantage"], mask.shape[1])
    assert advantages is not None
    if about["advantage_level"] == "sequence":
        advantages = _of_sequence(advantages, mask)
    if shaped is not None and about["shaped_level"] == "sequence":
        shaped = _of_sequence(shaped, mask)
    return RecordedStep(
        step=int(about["step"]),
        algorithm=str(about["algorithm"]),
        settings=dict(about["settings"]),
        rollouts=rollouts.replace(advantages=advantages),
        shaped=shaped,
        sequences=_sequences(columns),
    )


def _rollouts(columns: Mapping[str, Any], temperature: float) -> Rollouts:
    width = max(1, *list_lengths(columns["prompt_ids"]))
    depth = max(1, *list_lengths(columns["token_ids"]))
    prompt = padded(columns["prompt_ids"], width, left=True)
    response = padded(columns["token_ids"], depth)
    assert prompt is not None
    assert response is not None
    real = [
        real_places(columns["prompt_ids"], width).flip(1),
        real_places(columns["token_ids"], depth),
    ]
    tokens = {name: padded(columns[name], depth) for name in _OF_TOKENS}
    sequences = {name: flat_tensor(columns[name]) for name in _OF_SEQUENCES}
    fields: dict[str, Any] = {**tokens, **sequences}
    return Rollouts(
        input_ids=torch.cat([prompt, response], dim=1).long(),
        attention_mask=torch.cat(real, dim=1),
        temperature=temperature,
        **fields,
    )


def _sequences(columns: Mapping[str, Any]) -> tuple[RecordedSequence, ...]:
    names = (*_WORDS, "sample", "pieces")
    values = [columns[name].to_pylist() for name in names]
    return tuple(
        RecordedSequence(**{**dict(zip(names, row, strict=True)), "pieces": tuple(row[-1])})
        for row in zip(*values, strict=True)
    )


def _level(values: Tensor) -> str:
    return "sequence" if values.ndim == 1 else "token"


def _of_sequence(values: Tensor, mask: Tensor) -> Tensor:
    first = mask.int().argmax(dim=1, keepdim=True)
    return torch.where(mask.any(dim=1), values.gather(1, first)[:, 0], 0.0)

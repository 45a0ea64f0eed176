"""Completions as tensors: masks by lengths (reports D3, D4), padding that means nothing."""

import torch

from gtpo_lit.rollout.collate import collate, concatenate, engine_entropy, trim
from gtpo_lit.types import Completion, Graded, Problem


def _completion(*ids, finish="stop", **values):
    return Completion(token_ids=ids, text="", finish_reason=finish, **values)


def _graded(name, *completions, reward=None, correct=None):
    return Graded(
        problem=Problem(id=name, question=name, answer=""),
        completions=completions,
        reward=tuple(reward or [0.0] * len(completions)),
        correct=tuple(correct or [False] * len(completions)),
    )


def test_masks_come_from_engine_lengths_not_token_values():
    """Report D3: a second end token ends a row; padding that equals an end token hides nothing."""
    eos, pad = 151645, 151643
    graded = [
        _graded(
            "p",
            _completion(11, 12, pad),
            _completion(5, 6, 7, finish="length"),
            _completion(11, 12, 13, 14, eos, finish="length"),
        )
    ]
    rollouts = collate(graded, [[1]], [0], temperature=1.0)
    assert rollouts.mask.int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]
    assert rollouts.truncated.tolist() == [False, True, True]
    assert rollouts.length.tolist() == [3, 3, 5]


def test_a_truncated_response_keeps_its_ids_and_log_probs():
    """Report D4: nothing is overwritten with, or followed by, an end token."""
    graded = [_graded("p", _completion(9, 8, 7, finish="length", logprobs=(-0.1, -0.2, -0.3)))]
    rollouts = collate(graded, [[4, 5]], [0], temperature=1.0)
    assert rollouts.response_ids.tolist() == [[9, 8, 7]]
    assert rollouts.logp_sampler.tolist() == [[torch.tensor(v).item() for v in (-0.1, -0.2, -0.3)]]
    assert rollouts.truncated.tolist() == [True]


def test_prompts_stand_on_the_left_and_groups_stay_with_their_rows():
    graded = [
        _graded(
            "a", _completion(7, 2), _completion(8, 8, 2), reward=[1.0, 0.5], correct=[True, False]
        ),
        _graded("b", _completion(9)),
    ]
    rollouts = collate(graded, [[3], [4, 5, 6]], [10, 11], temperature=0.7)
    assert rollouts.input_ids.tolist() == [
        [0, 0, 3, 7, 2, 0],
        [0, 0, 3, 8, 8, 2],
        [4, 5, 6, 9, 0, 0],
    ]
    assert rollouts.attention_mask.int().tolist() == [
        [0, 0, 1, 1, 1, 0],
        [0, 0, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0],
    ]
    assert rollouts.group.tolist() == [10, 10, 11]
    assert rollouts.reward.tolist() == [1.0, 0.5, 0.0]
    assert rollouts.correct.tolist() == [True, False, False]
    assert rollouts.temperature == 0.7
    assert rollouts.logp_sampler is None


def test_concatenate_then_rows_then_trim_gives_the_parts_back():
    first = collate([_graded("a", _completion(7, 2))], [[3]], [0], temperature=1.0)
    second = collate([_graded("b", _completion(5, 6, 2))], [[8, 9]], [1], temperature=1.0)
    whole = concatenate([first, second])
    assert whole.input_ids.tolist() == [[0, 3, 7, 2, 0], [8, 9, 5, 6, 2]]
    for row, part in enumerate((first, second)):
        back = trim(whole.rows([row]))
        for name in ("input_ids", "attention_mask", "mask", "group", "reward", "entropy"):
            assert torch.equal(getattr(back, name), getattr(part, name)), name


def test_trim_keeps_one_response_column_where_nothing_is_real():
    rollouts = collate([_graded("a", _completion(7, 2))], [[3]], [0], temperature=1.0)
    empty = rollouts.replace(
        attention_mask=torch.tensor([[True, False, False]]), mask=torch.zeros(1, 2).bool()
    )
    assert trim(empty).input_ids.tolist() == [[3, 7]]


def test_engine_entropies_need_every_completion():
    with_values = _graded("a", _completion(1, 2, entropies=(0.5, 0.25)))
    without = _graded("b", _completion(1))
    assert engine_entropy([with_values], 3).tolist() == [[0.5, 0.25, 0.0]]
    assert engine_entropy([with_values, without], 3) is None

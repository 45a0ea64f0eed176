"""Where shaping can act, and which bound moves which entropy, by hand."""

import torch

from gtpo_lit.functional.shaping import bounded_entropy
from gtpo_lit.functional.shaping_reach import context_keys, moved_by_bounds, shapeable


def rows(*values):
    return torch.tensor(values).bool()


def apart(alive):
    """Contexts that are all different."""
    return torch.arange(alive.numel()).reshape(alive.shape)


def test_two_members_of_a_side_must_be_alive_at_the_position_in_a_mixed_group():
    # Group 0 is mixed (interleaved with the others), group 1 all right, group 2 of one each.
    group = torch.tensor([0, 1, 0, 1, 0, 2, 2])
    correct = torch.tensor([True, True, True, True, False, True, False])
    alive = rows([1, 1, 0], [1, 1, 1], [1, 0, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1])
    assert shapeable(alive, apart(alive), correct, group).int().tolist() == [
        [1, 0, 0],
        [0, 0, 0],
        [1, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
    ]


def test_a_group_that_is_mixed_by_an_empty_sequence_alone_is_not_mixed():
    group, correct = torch.zeros(3).long(), torch.tensor([True, True, False])
    alone = rows([1, 1], [1, 1], [0, 0])
    assert not shapeable(alone, apart(alone), correct, group).any()
    mixed = rows([1, 1], [1, 1], [0, 1])
    assert shapeable(mixed, apart(mixed), correct, group).sum() == 4


def test_copies_of_one_answer_cannot_be_shaped_and_one_that_differs_shapes_all_of_its_side():
    group, correct = torch.zeros(4).long(), torch.tensor([True, True, True, False])
    response = torch.tensor([[7, 8, 9, 4], [7, 8, 9, 4], [7, 5, 9, 4], [7, 8, 9, 4]])
    every = torch.ones(4, 4).bool()
    keys = context_keys(response, every)
    # The third answer departs at t = 1, so entropies can differ from t = 2 on.
    assert shapeable(every, keys[:, :-1], correct, group).int().tolist() == [
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [0, 0, 1, 1],
        [0, 0, 0, 0],
    ]
    assert shapeable(every[:, :1], keys[:, -1:], correct, group).tolist() == [
        [True],
        [True],
        [True],
        [False],
    ]
    # Once it has ended, the copies are by themselves.
    ended = every.clone()
    ended[2, 3:] = False
    assert shapeable(ended, keys[:, :-1], correct, group)[:, 3].tolist() == [False] * 4


def test_keys_are_equal_for_equal_tokens_alone_padding_apart():
    response = torch.tensor([[0, 3, 0], [0, 3, 0], [3, 0, 0]])
    real = rows([1, 1, 1], [1, 1, 0], [1, 1, 0])
    keys = context_keys(response, real)
    assert (keys[0] == keys[1]).tolist() == [True, True, True, False]
    # The same tokens in another order are another context.
    assert (keys[1] == keys[2]).tolist() == [True, False, False, False]
    many = torch.arange(100_000)[:, None]
    assert context_keys(many, torch.ones_like(many).bool())[:, 1].unique().numel() == 100_000


def test_each_bound_moves_what_lies_beyond_it():
    entropy = torch.tensor([[0.2, 0.7, 1.5, 3.0, 0.5, 2.0, 0.1]])
    alive = rows([1, 1, 1, 1, 1, 1, 0])
    moved = moved_by_bounds(entropy, alive, floor=0.5, clip=(1.0, 2.0))
    assert {name: where.int().tolist()[0] for name, where in moved.items()} == {
        "floor": [1, 0, 0, 0, 0, 0, 0],
        "clip_low": [1, 1, 0, 0, 1, 0, 0],
        "clip_high": [0, 0, 0, 1, 0, 0, 0],
    }
    somewhere = moved["floor"] | moved["clip_low"] | moved["clip_high"]
    changed = bounded_entropy(entropy, floor=0.5, clip=(1.0, 2.0)) != entropy
    assert torch.equal(somewhere, changed & alive)


def test_bounds_that_are_off_move_nothing():
    moved = moved_by_bounds(torch.tensor([[0.0, 9.0]]), rows([1, 1]))
    assert [int(where.sum()) for where in moved.values()] == [0, 0, 0]
    floored = moved_by_bounds(torch.tensor([[0.0, 9.0]]), rows([1, 1]), floor=1.0)
    assert [int(where.sum()) for where in floored.values()] == [1, 0, 0]

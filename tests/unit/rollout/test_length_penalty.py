"""Length penalties as options: values by hand, early refusals."""

import math

import pytest
import torch

from gtpo_lit.rollout.length_penalty import GroupRelativeOverlong, SoftOverlong
from gtpo_lit.types import Rollouts


def rollouts_of(lengths, correct=None, group=None):
    lengths = torch.tensor(lengths)
    mask = torch.arange(int(lengths.max()))[None] < lengths[:, None]
    return Rollouts(
        input_ids=torch.zeros(mask.shape, dtype=torch.long),
        attention_mask=mask,
        mask=mask,
        loss_mask=mask,
        group=torch.tensor(group or [0] * len(lengths)),
        reward=torch.zeros(len(lengths)),
        correct=torch.tensor(correct or [False] * len(lengths)),
        truncated=torch.zeros(len(lengths)).bool(),
        temperature=1.0,
        logp_old=torch.zeros(mask.shape),
        entropy=torch.zeros(mask.shape),
    )


def test_the_slope_ends_at_the_token_limit_of_the_run_unless_another_is_given():
    rollouts = rollouts_of([10, 12, 16, 20])
    run = SoftOverlong(buffer=8).penalty(rollouts, 20)
    torch.testing.assert_close(run, torch.tensor([0.0, 0.0, -0.5, -1.0]))
    own = SoftOverlong(buffer=8, factor=0.5, max_length=16).penalty(rollouts, 20)
    torch.testing.assert_close(own, torch.tensor([-0.125, -0.25, -0.5, -0.5]))


def test_grop_makes_long_correct_answers_of_an_easy_group_pay():
    # Solve rate 1 of the first group: knee max((4 + 12) / 2, 20 / 3) = 8; (12 - 8) / 16 = 0.25.
    # The second group is hard at gamma 0.8 and pays nothing.
    rollouts = rollouts_of(
        [4, 12, 4, 30, 2, 3, 4, 5],
        correct=[True] * 3 + [False, True] + [False] * 3,
        group=[0] * 3 + [1] * 5,
    )
    penalty = GroupRelativeOverlong().penalty(rollouts, 99)
    torch.testing.assert_close(penalty, torch.tensor([0.0, -0.25, 0, 0, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SoftOverlong(buffer=0), "buffer must be at least 1, got 0"),
        (
            lambda: SoftOverlong(buffer=1, factor=-1.0),
            "factor must be at least 0 and finite, got -1.0",
        ),
        (lambda: SoftOverlong(buffer=1, factor=math.inf), "at least 0 and finite, got inf"),
        (lambda: SoftOverlong(buffer=1, max_length=0), "max_length must be at least 1, got 0"),
        (
            lambda: SoftOverlong(buffer=10, max_length=500).check(26),
            "begins beyond 490 tokens, .*max_tokens = 26 never reach",
        ),
        (lambda: SoftOverlong(buffer=9).check(8), "buffer = 9 is longer .* 8 tokens"),
        (lambda: GroupRelativeOverlong(gamma=0.5), r"gamma must be in \(0.5, 1\], got 0.5"),
    ],
)
def test_options_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Normalisation by hand, against plain loops, and what each reading of Eq. 6 does."""

import math
import statistics

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtpo_lit.functional.advantages import normalize_sequences, normalize_tokens
from gtpo_lit.functional.shaping import token_rewards


def z_score(values, eps=1e-6):
    if len(values) < 2:
        return [0.0] * len(values)
    mean, std = statistics.fmean(values), statistics.stdev(values)
    return [(value - mean) / (std + eps) for value in values]


def loop_normalize_tokens(rewards, mask, correct, group, mode, scope, gate, mass):
    """One scope at a time, Python numbers only."""
    rows = range(len(group))
    full = [i for i in rows if bool(mask[i].any())]
    sides = {int(g): {bool(correct[i]) for i in full if group[i] == g} for g in group}
    kept = [i for i in rows if not gate or len(sides[int(group[i])]) == 2]
    out = torch.zeros_like(rewards)
    scopes = (
        [kept]
        if scope == "batch"
        else [[i for i in kept if group[i] == g] for g in sorted(set(group.tolist()))]
    )
    for members in scopes:
        if mode == "anchored":
            outcomes = [1.0 if correct[i] else -1.0 for i in members if i in full]
            if len(set(outcomes)) < 2:
                continue
            mean, std = statistics.fmean(outcomes), statistics.stdev(outcomes)
            for i in members:
                for t in mask[i].nonzero().flatten().tolist():
                    out[i, t] = (float(rewards[i, t]) / mass - mean) / (std + 1e-6)
            continue
        for side in [True, False] if mode == "separate" else [None]:
            places = [
                (i, t)
                for i in members
                if side is None or bool(correct[i]) == side
                for t in mask[i].nonzero().flatten().tolist()
            ]
            for (i, t), value in zip(
                places, z_score([float(rewards[i, t]) for i, t in places]), strict=True
            ):
                out[i, t] = value
    return out


@st.composite
def cases(draw):
    rows, columns = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    seed = draw(st.integers(0, 10_000))
    generator = torch.Generator().manual_seed(seed)
    correct = torch.rand(rows, generator=generator) < draw(st.sampled_from([0.0, 0.2, 0.5, 1.0]))
    mask = torch.rand(rows, columns, generator=generator) < draw(st.sampled_from([0.0, 0.6, 1.0]))
    group = torch.randint(0, 3, (rows,), generator=generator)
    entropy = torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 3
    rewards = token_rewards(entropy, mask, correct.double(), correct, group)
    return rewards, mask, correct, group


@given(
    case=cases(),
    mode=st.sampled_from(["joint", "separate", "anchored"]),
    scope=st.sampled_from(["group", "batch"]),
    gate=st.booleans(),
)
def test_token_advantages_equal_the_plain_loop(case, mode, scope, gate):
    found = normalize_tokens(*case, mode=mode, scope=scope, gate=gate, mass=1.1)
    wanted = loop_normalize_tokens(*case, mode=mode, scope=scope, gate=gate, mass=1.1)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_joint_by_hand():
    """Tokens 1, 1, -1 (mean 1/3, ddof-1 std sqrt(4/3)) in a group of two."""
    found = normalize_tokens(
        torch.tensor([[1.0, 1.0], [-1.0, 0.0]]).double(),
        torch.tensor([[True, True], [True, False]]),
        torch.tensor([True, False]),
        torch.tensor([0, 0]),
        eps=0.0,
    )
    wanted = torch.tensor([[2 / 3, 2 / 3], [-4 / 3, 0.0]]).double() / math.sqrt(4 / 3)
    torch.testing.assert_close(found, wanted)


def test_the_gate_silences_groups_without_a_choice_and_keeps_them_out_of_the_batch():
    correct = torch.tensor([True, False, True, True])
    group = torch.tensor([0, 0, 1, 1])
    rewards = torch.tensor([[1.0], [-1.0], [1.3], [0.9]]).double()
    mask = torch.ones(4, 1).bool()
    gated = normalize_tokens(rewards, mask, correct, group, scope="batch")
    alone = normalize_tokens(rewards[:2], mask[:2], correct[:2], group[:2])
    torch.testing.assert_close(gated[:2], alone)
    assert gated[2:].flatten().tolist() == [0.0, 0.0]
    letter = normalize_tokens(rewards, mask, correct, group, gate=False, eps=0.0)
    torch.testing.assert_close(letter[2:], torch.tensor([[1.0], [-1.0]]).double() / math.sqrt(2))


def _made(rights, wrongs, right_length, wrong_length, seed=0):
    """Made entropies, as in a trial of the readings."""
    generator = torch.Generator().manual_seed(seed)
    rows, columns = rights + wrongs, max(right_length, wrong_length)
    correct = torch.arange(rows) < rights
    lengths = torch.where(correct, right_length, wrong_length)
    mask = torch.arange(columns)[None] < lengths[:, None]
    entropy = torch.rand(rows, columns, generator=generator, dtype=torch.float64) * 2 + 1e-3
    return entropy, mask, correct.double(), correct, torch.zeros(rows).long()


def _flips(case, mode):
    entropy, mask, reward, correct, group = case
    shaped = token_rewards(entropy, mask, reward, correct, group)
    credit = normalize_tokens(shaped, mask, correct, group, mode=mode, mass=1.1)
    wrong, right = mask & ~correct[:, None], mask & correct[:, None]
    return (
        float(((credit > 0) & wrong).sum() / wrong.sum()),
        float(((credit < 0) & right).sum() / right.sum()),
    )


def test_one_right_answer_among_long_wrong_ones_flips_signs_except_under_anchored():
    """One right answer of 30 tokens, 15 wrong of 100: the wrong side holds 98 % of the tokens."""
    case = _made(1, 15, 30, 100)
    assert _flips(case, "joint")[0] > 0.5
    assert _flips(case, "separate")[0] > 0.5
    assert _flips(case, "anchored") == (0.0, 0.0)


def test_even_sides_flip_only_under_separate():
    case = _made(8, 8, 50, 50)
    assert _flips(case, "joint") == (0.0, 0.0)
    assert _flips(case, "anchored") == (0.0, 0.0)
    wrong, right = _flips(case, "separate")
    assert wrong > 0.4
    assert right > 0.4


@pytest.mark.parametrize(("share", "flips"), [(0.94, False), (0.97, True)])
def test_joint_keeps_signs_up_to_its_bound(share, flips):
    """Even entropies in the larger side: its sign turns beyond (1 + a1 / (a1 + a2)) / 2 = 95.5 %.

    The bound is for the least rewarded token of the large side, -a1, which a column of one zero
    entropy reaches: its partner takes the whole share.
    """
    total = 1000
    wrong = int(share * total)
    mask = torch.ones(2, total).bool()
    mask[0, total - wrong :] = False
    mask[1, wrong:] = False
    rewards = torch.where(torch.tensor([True, False])[:, None], 1.1, -1.1).double() * mask
    rewards[1, 0] = -1.0
    credit = normalize_tokens(rewards, mask, torch.tensor([True, False]), torch.zeros(2).long())
    assert bool(credit[1, 0] > 0) == flips


def test_separate_cancels_both_weights_and_sums_to_zero_inside_the_correct_side():
    entropy, mask, reward, correct, group = _made(5, 3, 6, 6)
    first = token_rewards(entropy, mask, reward, correct, group, alpha1=1.0, alpha2=0.1)
    second = token_rewards(entropy, mask, reward, correct, group, alpha1=0.3, alpha2=7.0)
    one = normalize_tokens(first, mask, correct, group, mode="separate", eps=0.0)
    two = normalize_tokens(second, mask, correct, group, mode="separate", eps=0.0)
    torch.testing.assert_close(one, two)
    torch.testing.assert_close(one[correct].sum(dim=0), torch.zeros(6).double(), atol=1e-9, rtol=0)


def test_a_lone_correct_answer_has_no_signal_under_separate():
    entropy, mask, reward, correct, group = _made(1, 3, 6, 6)
    shaped = token_rewards(entropy, mask, reward, correct, group)
    credit = normalize_tokens(shaped, mask, correct, group, mode="separate")
    assert credit[0].tolist() == [0.0] * 6


@pytest.mark.parametrize("mode", ["joint", "separate"])
def test_only_the_ratio_of_the_weights_matters(mode):
    entropy, mask, reward, correct, group = _made(3, 5, 4, 6)
    paper = token_rewards(entropy, mask, reward, correct, group, alpha1=1.0, alpha2=0.1)
    conserving = token_rewards(entropy, mask, reward, correct, group, alpha1=10 / 11, alpha2=1 / 11)
    torch.testing.assert_close(
        normalize_tokens(paper, mask, correct, group, mode=mode, eps=0.0),
        normalize_tokens(conserving, mask, correct, group, mode=mode, eps=0.0),
    )


def test_anchored_with_even_entropies_is_dapo_whatever_the_lengths():
    _, mask, reward, correct, group = _made(3, 5, 4, 9)
    shaped = token_rewards(torch.ones(mask.shape).double(), mask, reward, correct, group)
    token = normalize_tokens(shaped, mask, correct, group, mode="anchored", mass=1.1)
    sequence = normalize_sequences(torch.where(correct, 1.0, -1.0).double(), group)
    torch.testing.assert_close(token, sequence[:, None] * mask, rtol=0, atol=1e-12)


def test_joint_without_entropy_is_grpo_up_to_a_known_factor():
    """alpha2 = 0 and equal lengths T: GRPO on +-1 rewards times sqrt((G - 1/T) / (G - 1))."""
    rows, length = 8, 5
    entropy, mask, reward, correct, group = _made(3, 5, length, length)
    shaped = token_rewards(entropy, mask, reward, correct, group, alpha2=0.0)
    token = normalize_tokens(shaped, mask, correct, group, eps=0.0)
    sequence = normalize_sequences(torch.where(correct, 1.0, -1.0).double(), group, eps=0.0)
    factor = math.sqrt((rows - 1 / length) / (rows - 1))
    torch.testing.assert_close(token, factor * sequence[:, None].expand_as(token))


def test_interleaved_groups_are_not_mixed():
    """Report A4: P1, P2, P1, P2 with rewards 1, 0, 1, 0 has no signal; the control has."""
    rewards = torch.tensor([1.0, 0.0, 1.0, 0.0])
    interleaved = normalize_sequences(rewards, torch.tensor([1, 2, 1, 2]))
    assert interleaved.tolist() == [0.0] * 4
    control = normalize_sequences(rewards, torch.tensor([1, 1, 2, 2]), eps=1e-4)
    torch.testing.assert_close(
        control, torch.tensor([0.7070, -0.7070, 0.7070, -0.7070]), atol=1e-4, rtol=0
    )


def test_scales_by_hand():
    """Groups (3, 1) and (5, 5, 2): means 2 and 4."""
    rewards = torch.tensor([3.0, 1.0, 5.0, 5.0, 2.0]).double()
    group = torch.tensor([0, 0, 1, 1, 1])
    plain = torch.tensor([1.0, -1.0, 1.0, 1.0, -2.0]).double()
    torch.testing.assert_close(normalize_sequences(rewards, group, scale="none"), plain)
    by_group = plain / torch.tensor([math.sqrt(2)] * 2 + [math.sqrt(3)] * 3).double()
    torch.testing.assert_close(normalize_sequences(rewards, group, eps=0.0), by_group)
    by_batch = plain / statistics.stdev(rewards.tolist())
    torch.testing.assert_close(
        normalize_sequences(rewards, group, scale="batch", eps=0.0), by_batch
    )


def test_equal_rewards_give_exactly_zero_even_where_their_mean_rounds():
    rewards = torch.full((7,), 0.1)
    assert normalize_sequences(rewards, torch.zeros(7).long()).tolist() == [0.0] * 7


def test_a_group_of_one_gives_zero():
    assert normalize_sequences(torch.tensor([3.0, 1.0]), torch.tensor([0, 1])).tolist() == [0, 0]


def test_wrong_options_are_named():
    tensors = torch.ones(1, 1), torch.ones(1, 1).bool(), torch.ones(1).bool(), torch.zeros(1).long()
    with pytest.raises(ValueError, match="mode .*'other'"):
        normalize_tokens(*tensors, mode="other")
    with pytest.raises(ValueError, match="needs mass"):
        normalize_tokens(*tensors, mode="anchored")
    with pytest.raises(ValueError, match="scale .*'other'"):
        normalize_sequences(torch.ones(1), torch.zeros(1).long(), scale="other")

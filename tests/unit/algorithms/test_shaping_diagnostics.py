"""The numbers of a step's credit, by hand, for every algorithm that logs them."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GTPO
from gtpo_lit.types import Rollouts

PLACEBOS = ["entropy", "shuffled", "random", "constant", "inverted"]


def step(entropy, mask, correct, group=None, *, reward=None, penalty=None, dtype=torch.float64):
    """A step with these entropies.

    Each response begins with a token of its own that the policy did not write, so that no two have
    read the same.
    """
    rows = torch.arange(len(mask))
    mask = torch.nn.functional.pad(torch.tensor(mask), (1, 0)).bool()
    real = mask | (torch.arange(mask.shape[1]) == 0)
    correct = torch.tensor(correct)
    return Rollouts(
        input_ids=rows[:, None].expand(mask.shape).clone(),
        attention_mask=real,
        mask=mask,
        loss_mask=mask,
        group=torch.zeros(len(mask)).long() if group is None else torch.tensor(group),
        reward=correct.to(dtype) if reward is None else torch.tensor(reward, dtype=dtype),
        correct=correct,
        truncated=torch.zeros(len(mask)).bool(),
        temperature=1.0,
        logp_old=torch.zeros(mask.shape, dtype=dtype),
        entropy=torch.nn.functional.pad(torch.tensor(entropy, dtype=dtype), (1, 0)),
        penalty=None if penalty is None else torch.tensor(penalty, dtype=dtype),
    )


def two_and_two(**changes):
    """Right: shares 3/4 and 1/4 at t = 0, then one is alone. Wrong: 3/4 and 1/4, then halves."""
    return step(
        [[3.0, 5.0], [1.0, 9.0], [1.0, 2.0], [3.0, 2.0]],
        [[1, 1], [1, 0], [1, 1], [1, 1]],
        [True, True, False, False],
        **changes,
    )


def numbers(algorithm, rollouts):
    found = algorithm.diagnostics(rollouts.replace(advantages=algorithm.advantages(rollouts)))
    return {name.removeprefix("shaping/"): value for name, value in found.items()}


def test_gtpo_by_hand():
    found = numbers(GTPO(normalisation="anchored"), two_and_two())
    assert found["conservation_gap"] < 1e-12
    assert found["effective_sequences"] == pytest.approx((1.6 + 1.6 + 2.0) / 3)
    # Six of the seven tokens have company; the halves at t = 1 are even.
    assert found["shapeable_fraction"] == pytest.approx(6 / 7)
    assert found["shaped_fraction"] == pytest.approx(4 / 7)
    assert found["changed_fraction"] == pytest.approx(4 / 7)
    assert found["sign_flips_correct"] == found["sign_flips_wrong"] == 0.0
    assert found["saturated_fraction"] == 0.0


def test_grpo_s_by_hand():
    # Mean entropies 4, 1 | 1.5, 2.5: shares 4/5, 1/5 | 5/8, 3/8.
    found = numbers(GRPOS(), two_and_two())
    assert found["conservation_gap"] < 1e-12
    right, wrong = 1 / (0.64 + 0.04), 1 / ((25 + 9) / 64)
    assert found["effective_sequences"] == pytest.approx((right + wrong) / 2)
    assert found["shapeable_fraction"] == 1.0
    assert found["shaped_fraction"] == found["changed_fraction"] == 1.0


def test_what_has_read_the_same_could_not_be_shaped():
    # A policy that is sure of itself writes one answer again and again.
    copies = two_and_two().replace(input_ids=torch.ones(4, 3).long())
    copies = copies.replace(entropy=torch.tensor([0.0, 3.0, 2.0]).double().expand(4, 3))
    for algorithm in (GTPO(), GRPOS()):
        same = copies.replace(
            mask=copies.mask[:1].expand(4, 3), attention_mask=torch.ones(4, 3) > 0
        )
        found = numbers(algorithm, same)
        assert found["shapeable_fraction"] == found["shaped_fraction"] == 0.0
    other = copies.input_ids.clone()
    other[3, 1] = 2
    # The wrong ones differ in their first counted token; GTPO has one more to shape, after it.
    found = numbers(GTPO(), same.replace(input_ids=other))
    assert (found["shapeable_fraction"], found["shaped_fraction"]) == (2 / 8, 0.0)
    assert numbers(GRPOS(), same.replace(input_ids=other))["shapeable_fraction"] == 4 / 8


def test_fractions_of_grpo_s_weigh_tokens():
    # The right side has one member; of the wrong side's five tokens all can be shaped.
    rollouts = step(
        [[1.0, 1, 1], [1, 1, 1], [3, 3, 3]], [[1, 1, 1], [1, 0, 0], [1, 1, 1]], [True, False, False]
    )
    found = numbers(GRPOS(), rollouts)
    assert found["shapeable_fraction"] == pytest.approx(4 / 7)


def test_separate_turns_half_of_each_side_round():
    rollouts = step([[3.0], [1.0], [1.0], [3.0]], [[1]] * 4, [True, True, False, False])
    found = numbers(GTPO(normalisation="separate"), rollouts)
    assert found["sign_flips_correct"] == found["sign_flips_wrong"] == 0.5
    assert found["changed_fraction"] == 1.0


def test_joint_turns_the_many_wrong_tokens_round_beyond_its_bound():
    # One right token, forty wrong ones: the mean lies at -1.1 * 39 / 41 = -1.046.
    entropy = [[1.0, 1.0]] + [[1.0, 2.0]] * 10 + [[3.0, 2.0]] * 10
    mask = [[1, 0]] + [[1, 1]] * 20
    found = numbers(GTPO(), step(entropy, mask, [True] + [False] * 20))
    # At t = 0 the wrong pay 1.15 and 1.05, at t = 1 all pay 1.1: nobody is above the mean.
    assert found["sign_flips_wrong"] == 0.0
    uneven = [[1.0, 1.0]] + [[1.0, 2.0]] * 10 + [[99.0, 2.0]] * 10
    found = numbers(GTPO(), step(uneven, mask, [True] + [False] * 20))
    # Now ten of the wrong tokens pay 1.002 only.
    assert found["sign_flips_wrong"] == pytest.approx(10 / 40)
    assert found["sign_flips_correct"] == 0.0


def test_bounds_by_hand():
    entropy = [[0.2, 0.7], [1.5, 3.0]]
    algorithm = GTPO(entropy_floor=0.5, entropy_clip=(1.0, 2.0))
    found = numbers(algorithm, step(entropy, [[1, 1], [1, 1]], [True, False]))
    assert found["floor_fraction"] == 0.25
    assert found["clip_low_fraction"] == 0.5
    assert found["clip_high_fraction"] == 0.25
    assert found["saturated_fraction"] == 0.75
    # The mean entropies of the sequences are 0.45 and 2.25.
    found = numbers(
        GRPOS(entropy_floor=0.5, entropy_clip=(1.0, 2.0)),
        step(entropy, [[1, 1]] * 2, [True, False]),
    )
    assert found["floor_fraction"] == found["clip_low_fraction"] == 0.5
    assert found["clip_high_fraction"] == 0.5
    assert found["saturated_fraction"] == 1.0


def test_a_clip_that_holds_every_entropy_fast_shapes_nothing():
    for algorithm in (GTPO(entropy_clip=(0.2, 0.28)), GRPOS(entropy_clip=(0.2, 0.28))):
        found = numbers(algorithm, two_and_two())
        assert found["clip_high_fraction"] == 1.0
        assert found["shapeable_fraction"] > 0
        assert found["shaped_fraction"] == 0.0


@pytest.mark.parametrize("build", [GTPO, GRPOS])
def test_shaping_that_is_not_asked_for_could_not_shape(build):
    off = {"alpha2": 0.0} if build is GTPO else {"beta2": 0.0}
    for algorithm in (build(**off), build(share_weights="constant")):
        found = numbers(algorithm, two_and_two())
        assert found["shapeable_fraction"] == found["shaped_fraction"] == 0.0


@pytest.mark.parametrize("build", [GTPO, GRPOS])
@pytest.mark.parametrize("kind", PLACEBOS)
def test_placebo_shares_conserve_the_mass_in_float32(build, kind):
    generator = torch.Generator().manual_seed(3)
    rollouts = step(
        torch.rand(32, 40, generator=generator).tolist(),
        (torch.rand(32, 40, generator=generator) < 0.7).tolist(),
        (torch.rand(32, generator=generator) < 0.4).tolist(),
        [row % 4 for row in range(32)],
        dtype=torch.float32,
    )
    found = numbers(build(share_weights=kind), rollouts)
    assert 0 < found["conservation_gap"] < 1e-6
    assert (found["shaped_fraction"] > 0.9) == (kind != "constant")


def test_changed_is_against_grpo_on_the_same_rewards_and_penalties():
    # On +-1 rewards GRPO-S without entropy has GRPO's total rewards, penalties included.
    rollouts = two_and_two(reward=[1.0, 1.0, -1.0, -1.0], penalty=[-0.5, 0.0, -0.25, 0.0])
    assert numbers(GRPOS(beta2=0.0), rollouts)["changed_fraction"] == 0.0
    # On 0/1 rewards the same penalties weigh twice as much for GRPO.
    on_bits = rollouts.replace(reward=rollouts.correct.double())
    assert numbers(GRPOS(beta2=0.0), on_bits)["changed_fraction"] == 1.0
    assert numbers(GRPOS(beta2=0.0), on_bits)["shaped_fraction"] == 0.0


def test_an_empty_sequence_enters_no_comparison():
    extra = two_and_two()
    alone = step(
        [*extra.entropy[:, 1:].tolist(), [0.0, 0.0]],
        [*extra.mask[:, 1:].tolist(), [False, False]],
        [*extra.correct.tolist(), False],
    )
    for algorithm in (GTPO(normalisation="anchored"), GRPOS()):
        assert numbers(algorithm, alone) == numbers(algorithm, extra)


def test_a_subclass_is_asked_itself_what_even_shares_would_give():
    class ByLargest(GTPO):
        """All of a side's bonus on its largest entropy; knows no `share_weights`."""

        def shaped(self, rollouts):
            largest = rollouts.entropy == rollouts.entropy.max(dim=0).values
            return torch.where(rollouts.correct[:, None], 1.0 + largest, -1.0) * rollouts.mask

    assert numbers(ByLargest(), two_and_two())["shaped_fraction"] > 0
    assert numbers(ByLargest(), two_and_two())["conservation_gap"] > 0.05


@pytest.mark.parametrize("algorithm", [GRPO(), DAPO(), GTPO(), GRPOS()])
def test_shares_of_groups_by_hand(algorithm):
    # Group 0 right, 1 wrong, 2 mixed, 3 wrong under unequal penalties, 4 of an empty row alone.
    group = [0, 1, 2, 3, 0, 1, 2, 3, 4]
    correct = [True, False, True, False, True, False, False, False, True]
    rollouts = step(
        [[1.0]] * 9, [[1]] * 8 + [[0]], correct, group, penalty=[0, 0, 0, -0.5, 0, 0, 0, 0, 0]
    )
    found = numbers(algorithm, rollouts)
    assert found["groups/zero_variance_fraction"] == 2 / 4
    assert found["groups/all_correct_fraction"] == 1 / 4
    assert found["groups/all_wrong_fraction"] == 2 / 4
    assert found["groups/mixed_sequences_fraction"] == 2 / 8


@pytest.mark.parametrize("algorithm", [GRPO(), DAPO()])
def test_algorithms_that_shape_nothing_log_nothing_about_it(algorithm):
    assert {name.split("/")[0] for name in numbers(algorithm, two_and_two())} == {"groups"}

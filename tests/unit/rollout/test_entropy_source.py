"""Entropies recomputed, from the engine, or none: values, and who is refused."""

import pytest
import torch

from gtpo_lit.algorithms import DAPO, GRPO, GRPOS, GSPO, GTPO, DrGRPO, ForkingDAPO
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.rollout.collector import Collector, Drawn
from gtpo_lit.rollout.entropy_source import given_entropies, prepare_entropies
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.tasks import ExactReward, WeightedReward
from gtpo_lit.types import Problem, SamplingSettings


class Blind(TransformersSampler):
    """An engine that knows no entropies."""

    ask_for_entropies = Sampler.ask_for_entropies


class Forgetful(TransformersSampler):
    """An engine that promises entropies and reports none."""

    def ask_for_entropies(self):
        pass


def collected(policy, sampler, source, temperature=1.0):
    """A step of two groups of three, sampled and scored."""
    collector = Collector(
        sampler=sampler,
        reward=WeightedReward(accuracy=ExactReward(extract="last_equals")),
        seed=0,
        rows_per_forward=4,
        entropy_source=source,
    )
    drawn = [
        Drawn(
            problem=Problem(id=text, question=text, answer="7"),
            prompt_ids=tuple(policy.tokenizer(text).input_ids),
            place=place,
        )
        for place, text in enumerate(("12+3=", "7="))
    ]
    settings = SamplingSettings(max_tokens=12, temperature=temperature)
    sampler.push_weights(policy, 0)
    answered, completions = collector.sample(drawn, settings, samples=3, stream=("train", 0))
    assert answered == drawn
    graded = collector.grade(answered, completions)
    return collector.collect(drawn, graded, settings, policy, policy), graded


@pytest.fixture(scope="module")
def policy(tiny_qwen2):
    return PolicySpec(path=str(tiny_qwen2)).load().eval()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_sampler_reports_what_the_policy_recomputes(policy, temperature):
    sampler = TransformersSampler()
    sampler.ask_for_entropies()
    recomputed, _ = collected(policy, sampler, "recompute", temperature)
    reported, _ = collected(policy, sampler, "sampler", temperature)
    torch.testing.assert_close(reported.entropy, recomputed.entropy, rtol=0, atol=1e-4)
    assert float(recomputed.entropy.max()) > 0.5
    # Log-probs are recomputed either way, the reference's too, and are the same to the bit.
    assert torch.equal(reported.logp_old, recomputed.logp_old)
    assert torch.equal(reported.logp_ref, recomputed.logp_old)


def test_none_leaves_nan_on_every_token_and_the_same_log_probs(policy):
    recomputed, _ = collected(policy, TransformersSampler(), "recompute")
    without, _ = collected(policy, TransformersSampler(), "none")
    assert torch.equal(without.entropy.isnan(), without.mask)
    assert torch.equal(without.logp_old, recomputed.logp_old)


def test_a_masked_token_has_entropy_zero_whatever_the_engine_says(policy):
    sampler = TransformersSampler()
    sampler.ask_for_entropies()
    rollouts, graded = collected(policy, sampler, "sampler")
    hole = rollouts.mask.clone()
    hole[0, 0] = False
    found = given_entropies("sampler", rollouts.replace(mask=hole), graded, sampler)
    assert found[0, 0] == 0 < rollouts.entropy[0, 0]
    assert torch.equal(found[1:], rollouts.entropy[1:])


@pytest.mark.parametrize("algorithm", [GTPO(), GRPOS()], ids=lambda a: type(a).__name__)
def test_none_is_refused_where_credit_is_shaped_by_entropy(algorithm):
    message = f"data.entropy_source = 'none', but model.algorithm {type(algorithm).__name__} shapes"
    with pytest.raises(ValueError, match=message):
        prepare_entropies("none", TransformersSampler(), algorithm)


def test_everything_else_is_allowed():
    for algorithm in (DAPO(), GRPO(), GSPO(), DrGRPO(max_length=4), ForkingDAPO()):
        prepare_entropies("none", Blind(), algorithm)
    for algorithm in (GTPO(), GRPOS(), DAPO()):
        prepare_entropies("recompute", Blind(), algorithm)


def test_an_engine_without_entropies_is_refused_before_it_samples(policy):
    with pytest.raises(ValueError, match=r"data.entropy_source = 'sampler': Blind does not report"):
        prepare_entropies("sampler", Blind(), GTPO())
    prepare_entropies("sampler", Forgetful(), GTPO())
    with pytest.raises(ValueError, match="'sampler', but Forgetful reported no entropies"):
        collected(policy, Forgetful(), "sampler")

"""Draws of the in-process sampler: the right distribution, streams, ends and limits."""

import math
import random

import numpy as np
import pytest
import torch

from gtpo_lit.sampling.settings import check_training_settings
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.types import SampleRequest, SamplingSettings


def _requests(prompts=((5, 6, 7), (8,), (9, 10)), samples=3, seed=0):
    return [
        SampleRequest(
            prompt_ids=prompt,
            seeds=tuple(stream_seed(seed, place, sample) for sample in range(samples)),
        )
        for place, prompt in enumerate(prompts)
    ]


def _sampler(policy, **options):
    sampler = TransformersSampler(**options)
    sampler.push_weights(policy, 0)
    return sampler


def test_reported_log_probs_and_entropies_are_those_of_scoring(make_policy):
    policy = make_policy()
    settings = SamplingSettings(temperature=0.7, max_tokens=6)
    requests = _requests()
    for request, row in zip(requests, _sampler(policy).generate(requests, settings), strict=True):
        for completion in row:
            ids = torch.tensor([request.prompt_ids + completion.token_ids])
            length = len(completion.token_ids)
            logp, entropy = policy(ids, torch.ones_like(ids).bool(), length, temperature=0.7)
            assert logp[0].tolist() == pytest.approx(completion.logprobs, abs=1e-5)
            assert entropy[0].tolist() == pytest.approx(completion.entropies, abs=1e-5)


def test_a_row_does_not_depend_on_its_neighbours(make_policy):
    policy, settings = make_policy(), SamplingSettings(max_tokens=8)
    requests = _requests()
    together = _sampler(policy).generate(requests, settings)
    alone = [_sampler(policy).generate([request], settings)[0] for request in requests]
    assert [[c.token_ids for c in row] for row in together] == [
        [c.token_ids for c in row] for row in alone
    ]


def test_batches_of_whole_requests_are_equal_to_the_bit(make_policy):
    """What two ranks draw, each half of the requests, is what one draws."""
    policy, settings = make_policy(), SamplingSettings(max_tokens=8)
    requests = _requests(prompts=((5, 6, 7), (8,), (9, 10), (11,)))
    sampler = _sampler(policy, requests_per_batch=2)
    halves = sampler.generate(requests[:2], settings) + sampler.generate(requests[2:], settings)
    assert halves == sampler.generate(requests, settings)


def test_streams_differ_by_every_part_of_their_name():
    seeds = {
        stream_seed(0, "train", step, place, n)
        for step in range(9)
        for place in range(9)
        for n in range(9)
    }
    assert len(seeds) == 9**3
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert stream_seed(0, "train", 1) != stream_seed(0, "validation", 1)


def test_global_streams_stay_where_they_are(make_policy):
    policy = make_policy()
    torch.manual_seed(1)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    _sampler(policy).generate(_requests(), SamplingSettings(max_tokens=4))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]


@pytest.mark.parametrize(
    "settings",
    [
        SamplingSettings(temperature=0.7, max_tokens=1),
        SamplingSettings(top_k=5, max_tokens=1),
        SamplingSettings(top_p=0.6, max_tokens=1),
        SamplingSettings(min_p=0.2, max_tokens=1),
    ],
)
def test_tokens_follow_the_distribution(make_policy, settings):
    """Chi-square over 4,000 draws of a first token; the likeliest dozen tokens and the rest."""
    policy, draws = make_policy(), 4000
    request = SampleRequest(prompt_ids=(5, 6), seeds=tuple(stream_seed(7, n) for n in range(draws)))
    (row,) = _sampler(policy).generate([request], settings)
    logits = policy.model(input_ids=torch.tensor([[5, 6]])).logits[0, -1] / settings.temperature
    order = logits.argsort(descending=True)
    probs = logits.softmax(-1)
    kept = torch.ones_like(probs).bool()
    if settings.top_k:
        kept[order[settings.top_k :]] = False
    if settings.top_p < 1:
        kept[order] = probs[order].cumsum(0) - probs[order] < settings.top_p
    if settings.min_p:
        kept = probs >= settings.min_p * probs.max()
    wanted = (probs * kept) / (probs * kept).sum()
    counts = torch.bincount(torch.tensor([c.token_ids[0] for c in row]), minlength=64).double()
    assert counts[~kept].sum() == 0
    bins = order[:12]
    expected = torch.cat([wanted[bins], 1 - wanted[bins].sum()[None]]).double() * draws
    found = torch.cat([counts[bins], draws - counts[bins].sum()[None]])
    seen = expected > 5
    statistic = float(((found - expected)[seen].square() / expected[seen]).sum())
    assert statistic < 3.3 * max(4, int(seen.sum()))
    exact = math.isclose(
        row[0].logprobs[0], float(logits.log_softmax(-1)[row[0].token_ids[0]]), abs_tol=1e-5
    )
    assert exact, "log-probs are those of the tempered distribution, before truncation"


def test_every_end_token_ends_a_response_and_stays_in_it(make_policy):
    """Reports D3 and D4."""
    policy = make_policy()
    policy.end_token_ids = tuple(range(0, 64, 3))
    (row,) = _sampler(policy).generate(
        _requests(((5,),), samples=40), SamplingSettings(max_tokens=4)
    )
    stopped = [c for c in row if c.finish_reason == "stop"]
    cut = [c for c in row if c.finish_reason == "length"]
    assert len(stopped) > 5
    assert len(cut) > 0
    assert all(c.token_ids[-1] % 3 == 0 for c in stopped)
    assert all(token % 3 for c in row for token in c.token_ids[:-1])
    assert all(len(c.token_ids) == 4 and c.token_ids[-1] % 3 for c in cut)
    assert all(len(c.token_ids) == len(c.logprobs) == len(c.entropies) for c in row)


def test_temperature_zero_takes_the_likeliest_token(make_policy):
    policy = make_policy()
    settings = SamplingSettings(temperature=0, max_tokens=5)
    (row,) = _sampler(policy).generate(_requests(((5, 6),), samples=2), settings)
    ids = [5, 6]
    for token in row[0].token_ids:
        logits = policy.model(input_ids=torch.tensor([ids])).logits[0, -1]
        assert token == int(logits.argmax())
        ids.append(token)
    assert row[0] == row[1]


def test_training_mode_comes_back(make_policy):
    policy = make_policy().train()
    _sampler(policy).generate(_requests(), SamplingSettings(max_tokens=1))
    assert policy.training


def test_no_requests_give_no_completions(make_policy):
    assert _sampler(make_policy()).generate([], SamplingSettings()) == []


def test_what_does_not_fit_is_named(make_policy):
    sampler = _sampler(make_policy())
    with pytest.raises(ValueError, match=r"3 tokens and sampling.max_tokens = 62 exceed .* 64"):
        sampler.generate(_requests(), SamplingSettings(max_tokens=62))
    with pytest.raises(ValueError, match="without a token"):
        sampler.generate([SampleRequest(prompt_ids=(), seeds=(1,))], SamplingSettings())
    with pytest.raises(ValueError, match="requests_per_batch"):
        TransformersSampler(requests_per_batch=0)


@pytest.mark.parametrize(("name", "value"), [("top_p", 0.9), ("top_k", 20), ("min_p", 0.1)])
def test_biased_training_must_be_asked_for_by_name(name, value):
    settings = SamplingSettings(**{name: value})
    with pytest.raises(ValueError, match=rf"data.sampling.{name} = {value} .*allow_biased"):
        check_training_settings(settings, allow_biased=False)
    check_training_settings(settings, allow_biased=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0.0),
        ("temperature", -1.0),
        ("top_p", 0.0),
        ("top_k", -1),
        ("min_p", 2.0),
        ("max_tokens", 0),
    ],
)
def test_impossible_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"data.sampling.{name}"):
        check_training_settings(SamplingSettings(**{name: value}), allow_biased=True)

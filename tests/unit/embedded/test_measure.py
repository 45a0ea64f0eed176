"""The figures of the card are counted right, and sampling draws from the policy."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from gtpo_lit.embedded import measure as measure_module
from gtpo_lit.embedded.make_chains import make_model, make_tokenizer
from gtpo_lit.embedded.measure import measure, sample
from gtpo_lit.types import Problem


def tiny(seed: int = 0):
    tokenizer = make_tokenizer()
    return make_model(tokenizer, seed=seed).eval(), tokenizer


def test_measure_counts_by_hand(monkeypatch):
    _, tokenizer = tiny()
    texts = ["5", "3+4=5", "4", "1+1=2", "5", "6", "7", "8"] + [
        "0",
        "1",
        "2",
        "3",
        "4",
        "6",
        "7",
        "8",
    ]
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    rows = [[*tokenizer(text)["input_ids"], end] for text in texts]
    rows[3] = rows[3][:5]  # Cut by the limit: the row holds no end token.
    ids = torch.tensor([row + [pad] * (6 - len(row)) for row in rows])
    mask = torch.tensor([[True] * len(row) + [False] * (6 - len(row)) for row in rows])
    entropy = torch.where(mask, 0.5, 0.0)
    monkeypatch.setattr(measure_module, "sample", lambda *_, **__: (ids, mask, entropy))
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=end))
    problems = [Problem(id=str(i), question="3+4+8=", answer="5") for i in range(2)]

    found = measure(model, tokenizer, problems, samples=8)

    assert found.pass_at_1 == 3 / 16
    assert found.pass_at_all == 1 / 2
    assert found.mixed_groups == 1 / 2
    assert found.stepwise_share == 2 / 16
    assert found.stepwise_right == 1 / 2
    assert found.direct_right == 2 / 14
    assert found.mean_length == (14 * 2 + 6 + 5) / 16
    assert found.mean_entropy == pytest.approx(0.5)
    assert found.truncated == 1 / 16


def test_accuracy_of_a_strategy_never_used_is_nan(monkeypatch):
    _, tokenizer = tiny()
    ids = torch.tensor([[*tokenizer("5")["input_ids"], tokenizer.eos_token_id]] * 8)
    mask = torch.ones_like(ids, dtype=torch.bool)
    monkeypatch.setattr(measure_module, "sample", lambda *_, **__: (ids, mask, mask.float()))
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=1))
    found = measure(model, tokenizer, [Problem(id="0", question="5+0=", answer="5")], samples=8)
    assert math.isnan(found.stepwise_right)
    assert found.direct_right == 1


@pytest.mark.parametrize("samples", [0, 4, 12])
def test_samples_must_make_groups(samples):
    with pytest.raises(ValueError, match=f"multiple of 8, got {samples}"):
        measure(None, None, [], samples=samples)


def test_sample_agrees_with_a_forward_pass_without_cache():
    model, tokenizer = tiny()
    prompts = torch.tensor(tokenizer(["3+4=", "9+9="])["input_ids"]).repeat_interleave(20, dim=0)
    ids, mask, entropy = sample(
        model, prompts, generator=torch.Generator().manual_seed(0), max_tokens=12
    )
    with torch.no_grad():
        logits = model(input_ids=torch.cat([prompts, ids], dim=1)).logits[:, 3:-1].double()
    for row in range(len(ids)):
        alive = True
        for place in range(ids.shape[1]):
            assert mask[row, place] == alive
            if not alive:
                assert ids[row, place] == tokenizer.pad_token_id
                assert entropy[row, place] == 0
                continue
            p = logits[row, place].softmax(dim=-1)
            expected = -sum(float(q) * math.log(float(q)) for q in p)
            assert entropy[row, place] == pytest.approx(expected, abs=1e-5)
            alive = ids[row, place] != tokenizer.eos_token_id
    assert (~mask).any(), "no row ended early: the test shows nothing about masks"


def test_sample_frequencies_are_the_policy_probabilities():
    model, tokenizer = tiny()
    count = 4_000
    prompts = torch.tensor(tokenizer(["3+4="])["input_ids"]).repeat(count, 1)
    ids, _, _ = sample(model, prompts, generator=torch.Generator().manual_seed(0), max_tokens=1)
    with torch.no_grad():
        p = model(input_ids=prompts[:1]).logits[0, -1].softmax(dim=-1)
    frequency = torch.bincount(ids[:, 0], minlength=len(p)) / count
    # Five standard deviations of the likeliest token's frequency.
    torch.testing.assert_close(frequency, p, atol=5 * (p.max().item() / count) ** 0.5, rtol=0)

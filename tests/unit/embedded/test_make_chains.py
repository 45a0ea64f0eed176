"""The maker is deterministic, and its grouped loss is the plain mean over response tokens."""

from __future__ import annotations

import sys

import pytest
import torch

from gtpo_lit.embedded import make_chains
from gtpo_lit.embedded.demonstrations import Mixture
from gtpo_lit.embedded.make_chains import backward, make_model, make_tokenizer, warm_up


def test_loss_and_gradient_match_a_loop_over_rows():
    tokenizer = make_tokenizer()
    model = make_model(tokenizer, seed=3).double()
    questions = ["3+4+8=", "1+2=", "9+9+1="]
    responses = ["5", "1+2=3", "9+9=8;8+1=9"]
    loss = backward(model, tokenizer, questions, responses)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]

    nll, tokens = torch.zeros((), dtype=torch.float64), 0
    for question, response in zip(questions, responses, strict=True):
        asked = tokenizer(question)["input_ids"]
        written = [*tokenizer(response)["input_ids"], tokenizer.eos_token_id]
        logp = model(input_ids=torch.tensor([asked + written])).logits[0].log_softmax(dim=-1)
        for place, token in enumerate(written):
            nll = nll - logp[len(asked) - 1 + place, token]
            tokens += 1
    assert tokens == 2 + 6 + 12
    model.zero_grad()
    (nll / tokens).backward()

    assert loss == pytest.approx((nll / tokens).item(), rel=1e-10)
    for found, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(found, parameter.grad, rtol=1e-8, atol=1e-12)


def test_same_seed_same_weights():
    def made(seed: int) -> torch.Tensor:
        tokenizer = make_tokenizer()
        model = make_model(tokenizer, seed=seed)
        warm_up(model, tokenizer, mixture=Mixture(), steps=3, batch=4, seed=seed)
        return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])

    first = made(0)
    assert torch.equal(first, made(0))
    assert not torch.equal(first, made(1))


def test_output_is_never_overwritten(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["make_chains", "--output", str(tmp_path)])
    with pytest.raises(SystemExit):
        make_chains.main()
    assert f"{tmp_path} exists already" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

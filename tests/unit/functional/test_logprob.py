"""Log-probs and entropies by hand, in chunks, and where a probability is zero."""

import math

import pytest
import torch

from gtpo_lit.functional.logprob import (
    linear_logprob,
    linear_logprob_entropy,
    logits_logprob,
    logits_logprob_entropy,
)

INF = float("inf")


@pytest.mark.parametrize(
    ("logits", "entropy"),
    [
        ([0.0, 0.0, -INF], 0.693147),
        ([0.0, -INF], 0.0),
        ([1.0, 0.0, -INF], 0.582203),
        ([0.0, 0.0, 0.0, 0.0], 1.386294),
    ],
)
def test_entropy_where_a_probability_is_zero(logits, entropy):
    """Reports B1 and B3: full-vocabulary entropy, uniform over four = ln 4."""
    _, found = logits_logprob_entropy(torch.tensor(logits), torch.tensor(0))
    assert found.item() == pytest.approx(entropy, abs=1e-6)


def test_entropy_of_float16_at_the_ends_of_its_range():
    logits = torch.tensor([65504.0, -65504.0], dtype=torch.float16)
    logp, entropy = logits_logprob_entropy(logits, torch.tensor(0))
    assert (logp.item(), entropy.item()) == (0.0, 0.0)
    assert entropy.dtype == torch.float32


def test_gradient_of_the_entropy_where_a_probability_is_zero():
    """Report B1: not NaN, but [-0.196612, 0.196612, 0]."""
    logits = torch.tensor([1.0, 0.0, -INF], requires_grad=True)
    logits_logprob_entropy(logits, torch.tensor(0))[1].backward()
    torch.testing.assert_close(
        logits.grad, torch.tensor([-0.196612, 0.196612, 0.0]), atol=1e-6, rtol=0
    )


def test_temperature_divides_logits_before_the_softmax():
    """Report B2: logits [2, 1, 0], T = 0.6: -0.202573; T = 1: -0.407606."""
    logits = torch.tensor([2.0, 1.0, 0.0])
    tempered, _ = logits_logprob_entropy(logits, torch.tensor(0), temperature=0.6)
    plain, _ = logits_logprob_entropy(logits, torch.tensor(0))
    assert tempered.item() == pytest.approx(-0.202573, abs=1e-6)
    assert plain.item() == pytest.approx(-0.407606, abs=1e-6)
    total = sum(
        math.exp(logits_logprob_entropy(logits, torch.tensor(i), temperature=0.5)[0].item())
        for i in range(3)
    )
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 100])
@pytest.mark.parametrize("with_bias", [False, True])
def test_chunks_change_neither_values_nor_gradients(chunk_size, with_bias):
    generator = torch.Generator().manual_seed(0)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    inputs = [draw(2, 4, 5), draw(11, 5)] + ([draw(11)] if with_bias else [])
    targets = torch.randint(0, 11, (2, 4), generator=generator)
    weights = draw(2, 2, 4)
    results = []
    for size in (None, chunk_size):
        leaves = [value.clone().requires_grad_() for value in inputs]
        logp, entropy = linear_logprob_entropy(
            leaves[0],
            leaves[1],
            targets,
            bias=leaves[2] if with_bias else None,
            temperature=0.8,
            chunk_size=size,
        )
        (weights[0] * logp + weights[1] * entropy).sum().backward()
        results.append([logp.detach(), entropy.detach(), *(leaf.grad for leaf in leaves)])
    for plain, chunked in zip(*results, strict=True):
        torch.testing.assert_close(chunked, plain, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("frozen", [(1,), (1, 2)])
def test_a_frozen_head_gets_no_gradient_and_changes_no_other(frozen):
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(*shape, generator=generator) for shape in ((6, 5), (11, 5), (11,))]
    targets = torch.randint(0, 11, (6,), generator=generator)
    gradients = []
    for fixed in ((), frozen):
        hidden, weight, bias = (
            value.clone().requires_grad_(place not in fixed) for place, value in enumerate(inputs)
        )
        logp, entropy = linear_logprob_entropy(hidden, weight, targets, bias=bias, chunk_size=4)
        (logp + 0.3 * entropy).sum().backward()
        gradients.append([hidden.grad, weight.grad, bias.grad])
    assert torch.equal(gradients[0][0], gradients[1][0])
    for place in (1, 2):
        if place in frozen:
            assert gradients[1][place] is None
        else:
            assert torch.equal(gradients[0][place], gradients[1][place])


def test_parity_with_torch():
    generator = torch.Generator().manual_seed(1)
    hidden, weight = torch.randn(6, 5, generator=generator), torch.randn(11, 5, generator=generator)
    targets = torch.randint(0, 11, (6,), generator=generator)
    logp, entropy = linear_logprob_entropy(hidden, weight, targets, temperature=0.7)
    logits = hidden @ weight.T / 0.7
    wanted = -torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    torch.testing.assert_close(logp, wanted)
    torch.testing.assert_close(entropy, torch.distributions.Categorical(logits=logits).entropy())


def test_only_one_of_the_two_results_may_be_used():
    hidden = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(6, 4, dtype=torch.float64)
    targets = torch.tensor([0, 1, 2])
    for index in (0, 1):
        assert torch.autograd.gradcheck(
            lambda h, index=index: linear_logprob_entropy(h, weight, targets, chunk_size=2)[index],
            (hidden,),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("chunk_size", [None, 1, 3, 100])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_alone_are_the_same_to_the_bit_and_so_is_their_gradient(
    dtype, chunk_size, temperature
):
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(*shape, generator=generator) for shape in ((2, 4, 5), (11, 5), (11,))]
    targets = torch.randint(0, 11, (2, 4), generator=generator)
    weights = torch.randn(2, 4, generator=generator)
    results = []
    for function in (linear_logprob, linear_logprob_entropy):
        hidden, weight, bias = [value.to(dtype).requires_grad_() for value in inputs]
        values = function(
            hidden, weight, targets, bias=bias, temperature=temperature, chunk_size=chunk_size
        )
        logp = values if function is linear_logprob else values[0]
        (weights * logp).sum().backward()
        results.append([logp.detach(), hidden.grad, weight.grad, bias.grad])
    for alone, both in zip(*results, strict=True):
        assert torch.equal(alone, both)
    logits = torch.nn.functional.linear(*(value.to(dtype).double() for value in inputs))
    wanted = (logits / temperature).log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    torch.testing.assert_close(results[0][0].double(), wanted, rtol=1e-6, atol=1e-6)


def test_log_probs_of_logits_alone():
    logits = torch.tensor([[2.0, 1.0, 0.0], [1.0, 0.0, -INF]])
    targets = torch.tensor([0, 1])
    logp, _ = logits_logprob_entropy(logits, targets, temperature=0.6)
    alone = logits_logprob(logits, targets, temperature=0.6)
    assert torch.equal(alone, logp)
    assert alone.tolist() == pytest.approx([-0.202573, -1.839675], abs=1e-6)


def test_bfloat16_inputs_are_scored_in_float32():
    hidden, weight = torch.randn(3, 4).bfloat16(), torch.randn(6, 4).bfloat16()
    logp, entropy = linear_logprob_entropy(hidden, weight, torch.tensor([0, 1, 2]), chunk_size=2)
    assert (logp.dtype, entropy.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"chunk_size": 0}])
@pytest.mark.parametrize("function", [linear_logprob, linear_logprob_entropy])
def test_wrong_options_are_named(wrong, function):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        function(torch.ones(1, 1), torch.ones(2, 1), torch.tensor([0]), **wrong)

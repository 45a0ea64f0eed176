"""Names, types, shapes and bytes tell policies apart; adapters and their wrapping need not."""

import copy
import hashlib

import pytest
import torch
from torch import nn

from gtpo_lit.policy_identity import architecture, fingerprint


class Small(nn.Module):
    """Two parameters of known content."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        self.b = nn.Parameter(torch.tensor([-1.0]))


class Adapted(nn.Module):
    """A linear layer wrapped as peft does it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Module()
        self.layer.base_layer = nn.Linear(2, 2, bias=False)
        self.layer.lora_A = nn.ModuleDict({"default": nn.Linear(2, 1, bias=False)})
        self.layer.lora_B = nn.ModuleDict({"default": nn.Linear(1, 2, bias=False)})


def test_a_fingerprint_by_hand():
    digest = hashlib.sha256()
    for head, values in [
        ("a torch.float32 (2, 3);", [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ("b torch.float32 (1,);", [-1.0]),
    ]:
        digest.update(head.encode() + torch.tensor(values).numpy().tobytes())
    assert fingerprint(Small()) == digest.hexdigest()


def test_an_architecture_by_hand():
    wanted = hashlib.sha256(b"[('a', (2, 3)), ('b', (1,))]").hexdigest()[:16]
    assert architecture(Small()) == wanted


def value(model):
    model.b.data[0] = -1.0000001


def sign_of_zero(model):
    model.a.data[0, 0] = -0.0


def shape(model):
    model.a = nn.Parameter(model.a.detach().reshape(3, 2))


def name(model):
    model.c = model.b
    del model.b


def order(model):
    a = model.a
    del model.a
    model.a = a


def dtype(model):
    model.double()


@pytest.mark.parametrize("change", [value, sign_of_zero, shape, name, order, dtype])
def test_any_change_of_what_is_hashed_gives_another_fingerprint(change):
    model = Small()
    model.a.data[0, 0] = 0.0
    changed = copy.deepcopy(model)
    change(changed)
    assert fingerprint(changed) != fingerprint(model)


@pytest.mark.parametrize(
    ("change", "same"),
    [(value, True), (dtype, True), (shape, False), (name, False), (order, False)],
)
def test_an_architecture_is_names_and_shapes_alone(change, same):
    changed = Small()
    change(changed)
    assert (architecture(changed) == architecture(Small())) == same


def test_how_values_lie_in_memory_does_not_matter():
    model = Small()
    model.a = nn.Parameter(torch.tensor([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]).T)
    assert not model.a.is_contiguous()
    assert fingerprint(model) == fingerprint(Small())


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_hashed_bit_by_bit(kind):
    model = Small().to(kind)
    digest = hashlib.sha256()
    for key, values in model.named_parameters():
        digest.update(f"{key} {kind} {tuple(values.shape)};".encode())
        digest.update(values.detach().view(torch.int16).numpy().tobytes())
    assert fingerprint(model) == digest.hexdigest()


def test_buffers_gradients_and_frozen_weights_do_not_matter():
    model = Small()
    model.register_buffer("seen", torch.tensor(7))
    model.a.sum().backward()
    model.b.requires_grad_(False)
    assert fingerprint(model) == fingerprint(Small())


def test_the_base_of_an_adapted_model_is_that_of_the_plain_one():
    adapted = Adapted()
    plain = nn.Module()
    plain.layer = nn.Linear(2, 2, bias=False)
    plain.layer.weight = adapted.layer.base_layer.weight
    assert fingerprint(adapted, base=True) == fingerprint(plain) == fingerprint(plain, base=True)
    assert fingerprint(adapted) != fingerprint(plain)
    before = fingerprint(adapted)
    with torch.no_grad():
        adapted.layer.lora_B["default"].weight.add_(1.0)
    assert fingerprint(adapted) != before
    assert fingerprint(adapted, base=True) == fingerprint(plain)


def test_a_scalar_and_an_empty_parameter_can_be_hashed():
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(2.0))
    model.none = nn.Parameter(torch.empty(0, 3))
    wanted = hashlib.sha256(
        b"scale torch.float32 ();"
        + torch.tensor([2.0]).numpy().tobytes()
        + b"none torch.float32 (0, 3);"
    )
    assert fingerprint(model) == wanted.hexdigest()

import torch
from torch import nn

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling.weights import whole_weights


def test_every_weight_comes_once_under_its_name(tiny_qwen2, tiny_untied):
    for folder, head in ((tiny_qwen2, False), (tiny_untied, True)):
        model = PolicySpec(path=str(folder)).load().model
        found = dict(whole_weights(model))
        assert ("lm_head.weight" in found) == head
        assert list(found) == [name for name, _ in model.named_parameters()]
        for name, parameter in model.named_parameters():
            assert torch.equal(found[name], parameter)
            assert not found[name].requires_grad


def test_saved_buffers_come_too_and_others_do_not():
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2))
    module.register_buffer("bias", torch.full((2,), 3.0))
    module.register_buffer("cache", torch.zeros(2), persistent=False)
    assert [(name, value.tolist()) for name, value in whole_weights(module)] == [
        ("weight", [1.0, 1.0]),
        ("bias", [3.0, 3.0]),
    ]


def test_a_sharded_weight_is_made_whole_when_its_turn_comes():
    made = []

    class Shard(nn.Module):
        def state_dict(self, *_args, **_options):
            return {"a": Sharded("a"), "b": Sharded("b")}

        def named_parameters(self, *_args, **_options):
            return iter([("a", None), ("b", None)])

    class Sharded:
        def __init__(self, name):
            self.name = name

        def full_tensor(self):
            made.append(self.name)
            return torch.zeros(1)

    walk = whole_weights(Shard())
    assert next(walk)[0] == "a"
    assert made == ["a"]

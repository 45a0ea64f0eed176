"""A tensor that is not split is handed back as it is; one that is split is put together."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from gtpo_lit.whole import named_parts, whole


@pytest.fixture
def mesh(tmp_path):
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    dist.destroy_process_group()


def test_a_plain_tensor_is_the_same_object():
    value = torch.tensor([1.0, 2.0], requires_grad=True)
    assert whole(value) is value
    parameter = torch.nn.Parameter(torch.ones(2))
    assert whole(parameter) is parameter


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
def test_a_split_tensor_is_plain_again(mesh, placement):
    value = torch.arange(6.0, dtype=torch.float64).reshape(2, 3)
    together = whole(distribute_tensor(value, mesh, [placement]))
    assert type(together) is torch.Tensor
    assert together.dtype == torch.float64
    assert together.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


class Tied(torch.nn.Module):
    """Two names for one parameter, and a `state_dict` that leaves the other one out."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        self.first = torch.nn.Parameter(torch.tensor([[3.0]]))
        self.second = self.first
        self.register_state_dict_post_hook(leave_base_out)


def leave_base_out(module, saved, prefix, metadata):
    del saved["base"]


def test_parts_are_the_parameters_whatever_is_saved_of_them():
    model = Tied()
    assert "base" not in model.state_dict()
    parts = named_parts(model)
    assert [name for name, _ in parts] == ["base", "first"]
    assert parts[0][1] is model.base
    assert parts[1][1] is model.first


def test_the_parts_of_pieces_have_the_shape_that_is_saved():
    model = torch.nn.Linear(2, 1, bias=False)
    saved = torch.tensor([[1.0, 2.0]])
    model.weight = torch.nn.Parameter(torch.tensor([1.0]))
    model.weight._fsdp_flattened = True
    model.register_state_dict_post_hook(
        lambda module, content, prefix, _: content.update(weight=saved)
    )
    [(name, part)] = named_parts(model)
    assert name == "weight"
    assert part is saved

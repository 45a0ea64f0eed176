"""Norm and clipping of gradients, split or not."""

import math

import pytest
import torch
from torch import nn
from torch.distributed.tensor import Replicate, distribute_tensor

from gtpo_lit.sharding import clip_gradients, gradient_norm


def parameter(values, mesh=None):
    made = nn.Parameter(torch.zeros(len(values)))
    made.grad = torch.tensor(values)
    if mesh is not None:
        gradient = distribute_tensor(made.grad, mesh, [Replicate()])
        made = nn.Parameter(distribute_tensor(made.data, mesh, [Replicate()]))
        made.grad = gradient
    return made


def test_the_norm_is_over_all_gradients():
    assert gradient_norm([parameter([3.0, 4.0]), parameter([12.0])]).item() == 13.0
    assert gradient_norm([nn.Parameter(torch.ones(2))]).item() == 0.0


def test_gradients_of_several_meshes_have_one_norm_and_one_scale(mesh):
    parameters = [
        parameter([3.0, 4.0], mesh["data_parallel"]),
        parameter([12.0], mesh["tensor_parallel"]),
        parameter([0.0, 84.0]),
    ]
    assert gradient_norm(parameters).item() == pytest.approx(85.0)
    clip_gradients(parameters, 8.5)
    assert gradient_norm(parameters).item() == pytest.approx(8.5, rel=1e-5)
    assert parameters[1].grad.full_tensor().item() == pytest.approx(1.2, rel=1e-5)


def test_clipping_leaves_short_gradients_alone_and_agrees_with_torch():
    short = parameter([0.3, 0.4])
    clip_gradients([short], 1.0)
    assert short.grad.tolist() == pytest.approx([0.3, 0.4])
    ours, theirs = parameter([3.0, -4.0]), parameter([3.0, -4.0])
    clip_gradients([ours], 2.0)
    torch.nn.utils.clip_grad_norm_([theirs], 2.0)
    assert torch.equal(ours.grad, theirs.grad)


def test_what_is_not_finite_stays_so():
    assert math.isnan(gradient_norm([parameter([math.nan, 1.0])]).item())

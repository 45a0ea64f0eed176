"""A process group of this process alone, in which sharded policies are made like in any other."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from gtpo_lit.policy import PolicySpec
from gtpo_lit.sharding import ShardOptions, load_sharded


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    store = dist.FileStore(str(tmp_path_factory.mktemp("group") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield init_device_mesh("cpu", (1, 1), mesh_dim_names=("data_parallel", "tensor_parallel"))
    dist.destroy_process_group()


@pytest.fixture
def load(mesh):
    """A sharded policy of a folder or name, and the same one in one piece."""

    def load_both(path="embedded:chains", **options):
        spec = PolicySpec(path=str(path), **options)
        sharded = load_sharded(spec, mesh, torch.device("cpu"), ShardOptions())
        return sharded, spec.load()

    return load_both

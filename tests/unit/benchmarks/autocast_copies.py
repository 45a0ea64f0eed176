"""Prints how many half-precision copies of sharded weights live at the end of a forward.

Blocks are sharded by FSDP2 and checkpointed, so that nothing but autocast's cache can hold them.
"""

import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

WIDTH, BLOCKS = 16, 5


class Casts(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function is torch.ops.aten._to_copy.default and out.shape == (WIDTH, WIDTH):
            self.made.append(weakref.ref(out))
        return out


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(BLOCKS))

    def forward(self, rows):
        for block in self.blocks:
            rows = checkpoint(block, rows, use_reentrant=False)
        return rows


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = dist.init_device_mesh("cpu", (1,))
    net = Net()
    for block in net.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=True)
    fully_shard(net, mesh=mesh)
    rows = torch.randn(2, WIDTH, requires_grad=True)
    for cache in (True, False):
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=cache), Casts() as casts:
            out = net(rows)
            alive = sum(ref() is not None for ref in casts.made)
        left = sum(ref() is not None for ref in casts.made)
        print(len(casts.made), alive, left)
        del out
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

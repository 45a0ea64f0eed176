"""What tells one policy from another: hashes of its weights, and of their names and shapes."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

from gtpo_lit.policy_adapters import base_name, is_adapter
from gtpo_lit.whole import named_parts, whole


def fingerprint(model: nn.Module, *, base: bool = False) -> str:
    """SHA-256 over the name, dtype, shape and bytes of every parameter, as 64 hex digits.

    A collective where the model is sharded.

    Args:
        model: its parameters are read one by one.
        base: leave adapters out.
    """
    digest = hashlib.sha256()
    for name, part in named_parts(model):
        if base and is_adapter(name):
            continue
        values = whole(part).cpu().contiguous()
        digest.update(f"{base_name(name)} {values.dtype} {tuple(values.shape)};".encode())
        digest.update(values.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def architecture(policy: nn.Module) -> str:
    """A hash of the names and shapes of all parameters, as 16 hex digits.

    A collective where FSDP1 splits the policy.
    """
    shapes = [(name, tuple(part.shape)) for name, part in named_parts(policy)]
    return hashlib.sha256(repr(shapes).encode()).hexdigest()[:16]

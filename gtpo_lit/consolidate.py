"""``gtpo-lit consolidate``: a checkpoint of many ranks as one file, or as a Hugging Face folder."""

from __future__ import annotations

import argparse
import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from gtpo_lit.durable import move_into_place, remove
from gtpo_lit.policy import PolicySpec
from gtpo_lit.sharding.full_state import numbered
from gtpo_lit.torn_checkpoint import META, why_torn

DESCRIPTION = """\
Reads a sharded checkpoint (a folder, as FSDP2 writes it) and writes one file that
`gtpo-lit fit --ckpt_path` takes on any number of ranks, or with --huggingface a folder that
AutoModelForCausalLM.from_pretrained loads. A checkpoint that is one file already can be turned
into such a folder, too. All tensors pass through the memory of this process.
"""
# What torch.compile, activation checkpointing and FSDP1 put between the names of modules.
_WRAPPERS = re.compile(r"(_orig_mod|_checkpoint_wrapped_module|_fsdp_wrapped_module|module)\.")
_POLICY = "policy."


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the subcommand.

    Raises:
        ValueError: naming what is wrong with an option or the checkpoint.
        SystemExit: with code 2 for options that do not parse.
    """
    parser = argparse.ArgumentParser(
        prog="gtpo-lit consolidate", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("checkpoint", type=Path, help="folder of a sharded checkpoint, or a file")
    parser.add_argument("output", type=Path, help="what to write; must not exist")
    parser.add_argument(
        "--huggingface", action="store_true", help="write a folder for transformers"
    )
    parser.add_argument(
        "--policy",
        help="model folder or hub id that training began with; that of the run's config.yaml if "
        "not given",
    )
    options = parser.parse_args(arguments)
    check(options.checkpoint, options.output)
    if options.huggingface:
        spec = _spec(options.checkpoint, options.policy)
        export(options.checkpoint, options.output, spec)
    else:
        save_file(read_checkpoint(options.checkpoint), options.output)
    print(f"gtpo-lit: {options.output} holds what {options.checkpoint} held")


def check(checkpoint: Path, output: Path) -> None:
    """Refuse what cannot be read or would be written over.

    Raises:
        ValueError: naming it.
    """
    reason = why_torn(checkpoint)
    if reason is not None:
        raise ValueError(f"checkpoint {str(checkpoint)!r} {reason}")
    if output.exists():
        raise ValueError(f"output {str(output)!r} exists already")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint of either kind with whole tensors, on the CPU, as one rank would save it.

    Names of weights lose what wrappers put into them; optimiser states are numbered in the order
    of the optimiser's parameters.
    """
    if path.is_file():
        content: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        return content
    content = torch.load(path / META, map_location="cpu", weights_only=True)
    tensors = _read_shards(path)
    content["state_dict"] = unwrapped(tensors["state_dict"])
    names = sorted(name for name in tensors if name.startswith("optimizer_"))
    content["optimizer_states"] = [numbered(tensors[name]) for name in names]
    return content


def unwrapped(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights under the names that they have in the plain module.

    >>> unwrapped({"policy._orig_mod.model.lm_head.weight": 1})
    {'policy.model.lm_head.weight': 1}
    """
    return {_WRAPPERS.sub("", name): value for name, value in weights.items()}


def save_file(content: Mapping[str, Any], output: Path) -> None:
    """Write a checkpoint as one file, whole or not at all."""
    partial = output.with_name(f"{output.name}.partial")
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.save(dict(content), partial)
        move_into_place(partial, output)
    finally:
        remove(partial)


def export(checkpoint: Path, output: Path, spec: PolicySpec) -> None:
    """Write the policy of a checkpoint as a Hugging Face folder.

    Raises:
        ValueError: the checkpoint holds other weights than such a policy has, naming some.
    """
    weights = {
        name.removeprefix(_POLICY): value
        for name, value in read_checkpoint(checkpoint)["state_dict"].items()
        if name.startswith(_POLICY)
    }
    policy = spec.load()
    wanted = {name: tuple(value.shape) for name, value in policy.state_dict().items()}
    found = {name: tuple(value.shape) for name, value in weights.items()}
    if wanted != found:
        odd = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
        raise ValueError(
            f"checkpoint {str(checkpoint)!r} is not of policy {spec.path!r}: {len(odd)} weights "
            f"differ in name or shape, as {odd[0]!r}: {found.get(odd[0])} in the checkpoint, "
            f"{wanted.get(odd[0])} in the policy"
        )
    policy.load_state_dict(weights)
    output.parent.mkdir(parents=True, exist_ok=True)
    policy.export(output)


def _read_shards(path: Path) -> dict[str, Any]:
    from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

    tensors: dict[str, Any] = {}
    # What `dcp_to_torch_save` does, without its copy on disk.
    _load_state_dict(
        tensors,
        storage_reader=FileSystemReader(path),
        planner=_EmptyStateDictLoadPlanner(),
        no_dist=True,
    )
    return tensors


def _spec(checkpoint: Path, policy: str | None) -> PolicySpec:
    config = checkpoint.resolve().parent.parent / "config.yaml"
    given: dict[str, Any] = {}
    if config.is_file():
        given = yaml.safe_load(config.read_text(encoding="utf-8"))["model"].get("policy") or {}
    elif policy is None:
        raise ValueError(
            f"--huggingface: {str(config)!r} is not there to say which policy this is; give "
            "--policy=FOLDER_OR_HUB_ID"
        )
    known = {field.name for field in dataclasses.fields(PolicySpec)}
    options = {name: value for name, value in given.items() if name in known}
    return PolicySpec(**(options if policy is None else options | {"path": policy}))

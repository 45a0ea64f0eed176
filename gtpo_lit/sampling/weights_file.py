"""The policy's whole weights as a file, for servers that read them from there.

The file is written weight by weight in the safetensors format: eight bytes with the length
of a JSON header, the header with dtype, shape and place of each tensor, then their bytes. The
header needs shapes alone, so no more than one whole weight is in memory at a time.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gtpo_lit.sampling.weights import named_weights, whole_weights

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}

# Names tell whose file it is, so that one without an owner can be recognised.
_NAME = re.compile(r"gtpo-lit-(\d+)-[0-9a-f]{8}\.safetensors")


def new_path(folder: Path) -> Path:
    """A path in `folder` that no other file has, with this process's number in its name."""
    return folder / f"gtpo-lit-{os.getpid()}-{secrets.token_hex(4)}.safetensors"


def remove_orphans(folder: Path) -> list[Path]:
    """Remove the weights files of processes of this machine that are gone; their paths.

    A process that is killed while its file is there cannot remove it. Files of other users stay.
    """
    removed = []
    for path in sorted(folder.glob("gtpo-lit-*.safetensors")):
        match = _NAME.fullmatch(path.name)
        if match is None or Path(f"/proc/{match[1]}").exists():
            continue
        try:
            path.unlink()
        except OSError:  # another user's, or another trainer was quicker
            continue
        removed.append(path)
    return removed


def header_of(tensors: Iterable[tuple[str, Tensor]]) -> bytes:
    """The start of a safetensors file that holds `tensors` one after the other.

    Raises:
        ValueError: for a dtype that the format does not know.

    >>> header_of([("a", torch.zeros(2, 3))])[8:]
    b'{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}       '
    """
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors:
        if tensor.dtype not in DTYPES:
            raise ValueError(f"weight {name!r} has dtype {tensor.dtype}, which has no file form")
        start, end = end, end + prod(tensor.shape) * tensor.element_size()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    return len(text).to_bytes(8, "little") + text


@contextmanager
def weights_file(model: nn.Module, path: Path | None) -> Iterator[OSError | None]:
    """All weights of `model` in a new file, which is gone when the context ends.

    The file can be read by its owner alone. On a failure the gathering still goes on to its end,
    since the other ranks take part in it.

    Args:
        model: its weights may be sharded; then all ranks must call this.
        path: where the file is made; None on the ranks that only help gathering.

    Yields:
        What went wrong with the file, if anything; it is not there then.
    """
    error: OSError | None = None
    try:
        if path is None:
            for _ in whole_weights(model):
                pass
        else:
            error = _write(model, path)
        yield error
    finally:
        if path is not None and not isinstance(error, FileExistsError):
            path.unlink(missing_ok=True)


def _write(model: nn.Module, path: Path) -> OSError | None:
    named = named_weights(model)
    weights = whole_weights(model, named)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            _write_all(file, memoryview(header_of(named)))
            for _, tensor in weights:
                values = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
                _write_all(file, values.numpy().data)
    except OSError as error:
        for _ in weights:  # the other ranks are gathering
            pass
        return error
    return None


def _write_all(file: Any, data: memoryview) -> None:
    """Unbuffered files may take a part only: Linux writes at most 2 GiB at a time."""
    while len(data) > 0:
        data = data[file.write(data) :]

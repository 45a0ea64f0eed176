"""What the options of `VLLMServerSampler` must be, told before anything is asked of a server."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from gtpo_lit.sampling.vllm_http import check_url
from gtpo_lit.sampling.vllm_nccl import NCCLTransport
from gtpo_lit.sampling.vllm_push import FileTransport, Transport

OPTION = "data.sampler"
TransportName = Literal["file", "nccl"]
SHARED_MEMORY = Path("/dev/shm")


def check_urls(urls: Sequence[str]) -> tuple[str, ...]:
    """The servers' URLs in one spelling.

    Raises:
        ValueError: none is given, one twice, or one that is no server's.
    """
    try:
        checked = tuple(check_url(url) for url in urls)
    except ValueError as error:
        raise ValueError(f"{OPTION}.urls: {error}") from error
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(
            f"{OPTION}.urls must name at least one server, and none twice, got {list(urls)}"
        )
    return checked


def check_numbers(**numbers: tuple[float, float]) -> None:
    """Raise ValueError for each option whose value is below the least one, given beside it."""
    for name, (value, least) in numbers.items():
        if not value >= least:
            raise ValueError(f"{OPTION}.{name} must be at least {least}, got {value}")


def make_transport(
    name: str, urls: Sequence[str], folder: str | None, nccl_address: str
) -> Transport:
    """The way for the weights.

    Raises:
        ValueError: an unknown one, a folder that cannot be written to, or servers on other
            machines that would not see the weights file.
    """
    if name not in get_args(TransportName):
        raise ValueError(f"{OPTION}.transport must be in {get_args(TransportName)}, got {name!r}")
    if name == "nccl":
        return NCCLTransport(nccl_address)
    if folder is None:
        far = [url for url in urls if not _is_here(url)]
        if far:
            raise ValueError(
                f"{OPTION}.urls {far} are on other machines, which do not see this one's shared "
                f"memory; give {OPTION}.weights_folder, a folder that all of them see, or "
                f"{OPTION}.transport 'nccl'"
            )
        return FileTransport(SHARED_MEMORY, own_machine=True)
    place = Path(folder).expanduser().absolute()
    if not place.is_dir() or not os.access(place, os.W_OK):
        raise ValueError(
            f"{OPTION}.weights_folder must be a folder that can be written to, got {folder!r}"
        )
    return FileTransport(place)


def _is_here(url: str) -> bool:
    host: Any = urlsplit(url).hostname
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name
        return False

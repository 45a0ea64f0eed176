"""Weights from GPU to GPU, by vLLM's own NCCL transport; needs vLLM in the trainer's process."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn

from gtpo_lit.policy_adapters import adapted_layers
from gtpo_lit.sampling.ranks import by_rank_zero, rank
from gtpo_lit.sampling.vllm_http import ServerError
from gtpo_lit.sampling.vllm_push import Failures, on_each
from gtpo_lit.sampling.vllm_remote import RemoteEngine
from gtpo_lit.sampling.weights import named_weights, whole_weights
from gtpo_lit.whole import is_piece


class NCCLTransport:
    """One NCCL group for each server: the trainer's rank 0 and that server's workers.

    A group of its own lets a server leave or come back without touching the others; in exchange
    the weights are sent, and shards gathered, once for each server. A server that dies in the
    middle of a broadcast is noticed only by NCCL's own time limit.

    Args:
        address: of the trainer's machine, as the servers see it.
    """

    backend: str | None = "nccl"

    def __init__(self, address: str) -> None:
        self.address = address
        self._groups: dict[str, Any] = {}

    def push(
        self, model: nn.Module, engines: Sequence[RemoteEngine], version: str, fresh: set[str]
    ) -> Failures:
        """See `Transport`.

        Raises:
            ValueError: the weights are not on a GPU, or FSDP1 splits them.
        """
        if any(is_piece(parameter) for parameter in model.parameters()):
            raise ValueError(
                "transport 'nccl' does not take a policy that FSDP1 splits: use transport 'file', "
                "or configs/strategy/fsdp2.yaml"
            )
        device = next(model.parameters()).device
        if device.type != "cuda":
            raise ValueError(
                f"transport 'nccl' needs a policy on GPUs, it is on {device}; use transport 'file'"
            )
        failures: Failures = {}
        for engine in engines:
            failures |= self._push_to(model, engine, version, engine.url in fresh)
        return failures

    def _push_to(
        self, model: nn.Module, engine: RemoteEngine, version: str, fresh: bool
    ) -> Failures:
        """All ranks take part in the sending; the steps before and after it are rank 0's."""
        if fresh:
            self._groups.pop(engine.url, None)
        failed = by_rank_zero(lambda: on_each([engine], lambda one: self._ready(model, one)))
        if failed:
            return failed
        broken: list[str] = []
        try:
            self._group(model, engine).send_weights()
        except ServerError as error:
            broken.append(str(error))
        return by_rank_zero(lambda: on_each([engine], lambda one: _complete(one, version, broken)))

    def _ready(self, model: nn.Module, engine: RemoteEngine) -> None:
        self._group(model, engine)
        engine.pause()
        engine.start_transfer()

    def _group(self, model: nn.Module, engine: RemoteEngine) -> Any:
        """This rank's end; rank 0 connects, while the server's workers wait for it."""
        from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        if engine.url not in self._groups:
            leads = rank() == 0
            self._groups[engine.url] = WeightTransferTrainerFactory.trainer_init(
                NCCLTrainerInitInfo(
                    master_address=self.address,
                    master_port=free_port() if leads else 0,
                    world_size=1 + engine.workers() if leads else 0,
                    rank=rank(),
                ),
                client=_Steps(engine),
                source=source_of(model),
            )
        return self._groups[engine.url]


class _Steps:
    """The calls that vLLM's trainer side makes while it sends; what frames them is done here."""

    def __init__(self, engine: RemoteEngine) -> None:
        self.engine = engine

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.engine.init_transfer(init_info)

    def start_weight_update(self) -> None:
        """Done before."""

    def update_weights(self, update_info: Any) -> None:
        self.engine.receive(update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """Done afterwards."""


def _complete(engine: RemoteEngine, version: str, broken: Sequence[str]) -> None:
    if broken:
        raise ServerError(broken[0])
    engine.finish_transfer()
    engine.commit(version)


def source_of(model: nn.Module) -> Any:
    """What vLLM's trainer side sends: every parameter of `model`, adapters merged."""
    from vllm.distributed.weight_transfer import ModuleSource
    from vllm.distributed.weight_transfer.base import ParamMeta

    if not adapted_layers(model):
        return ModuleSource(model)

    class MergedSource(ModuleSource):  # type: ignore[misc]  # vLLM is not there for mypy
        def metadata(self) -> list[Any]:
            return [ParamMeta(n, w.dtype, tuple(w.shape)) for n, w in named_weights(model)]

        def __iter__(self) -> Iterator[tuple[str, Tensor]]:
            return whole_weights(model)

    return MergedSource(model)


def free_port() -> int:
    """A TCP port that nobody listens on at the moment."""
    with socket.socket() as listener:
        listener.bind(("", 0))
        return int(listener.getsockname()[1])

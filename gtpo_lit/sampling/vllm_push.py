"""How new weights reach the servers: who gets them, by which way, and who fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol

from lightning.pytorch.utilities import rank_zero_info
from torch import nn

from gtpo_lit.sampling.ranks import by_rank_zero, rank
from gtpo_lit.sampling.vllm_fleet import Fleet, NoServerLeft
from gtpo_lit.sampling.vllm_http import ServerError
from gtpo_lit.sampling.vllm_remote import START_HINT, RemoteEngine, Setup, WrongSetup
from gtpo_lit.sampling.weights_file import new_path, remove_orphans, weights_file

Failures = dict[str, str]
"""What went wrong, by the server's URL."""


class Transport(Protocol):
    """A way for weights. `push` is a collective: all ranks call it, and rank 0 sends."""

    backend: str | None
    """The backend of vLLM's own weight transfer that servers must run with, if it is used."""

    def push(
        self, model: nn.Module, engines: Sequence[RemoteEngine], version: str, fresh: set[str]
    ) -> Failures:
        """Bring `model`'s weights to all `engines`; a failure on one does not stop the others.

        Args:
            model: the trainer's, on every rank.
            engines: the same ones on every rank.
            version: the label of the weights.
            fresh: the URLs of servers that may be other processes than at the last push.
        """


class FileTransport:
    """Through a safetensors file in shared memory, or in a folder that the machines share.

    The file is there during the push alone, and only its owner can read it.

    Args:
        folder: where the file is made.
        own_machine: whether all who write there are processes of this machine. Then what a trainer
            killed in mid-push left behind is removed by the next push.
    """

    backend: str | None = None

    def __init__(self, folder: Path, *, own_machine: bool = False) -> None:
        self.folder = folder
        self.own_machine = own_machine

    def push(
        self, model: nn.Module, engines: Sequence[RemoteEngine], version: str, fresh: set[str]
    ) -> Failures:
        """See `Transport`.

        Raises:
            OSError: on all ranks, if the file cannot be written.
        """
        if self.own_machine and rank() == 0:
            remove_orphans(self.folder)
        path = new_path(self.folder) if rank() == 0 else None
        with weights_file(model, path) as error:

            def send() -> Failures:
                if error is not None:
                    raise error
                return on_each(engines, lambda engine: self._update(engine, str(path), version))

            return by_rank_zero(send)

    def _update(self, engine: RemoteEngine, path: str, version: str) -> None:
        engine.pause()
        engine.load_file(path)
        engine.commit(version)


class Pusher:
    """Pushes to every server that can be reached, and tells the fleet which ones are current.

    Args:
        engines: all servers.
        transport: the way for the weights.
        start_timeout: seconds that servers have to come up at the start.
    """

    def __init__(
        self, engines: Sequence[RemoteEngine], transport: Transport, *, start_timeout: float
    ) -> None:
        self.engines = engines
        self.transport = transport
        self.start_timeout = start_timeout
        self._pushed = False

    def connect(self) -> list[Setup]:
        """Wait until the servers are up, and see that they are of use. A collective.

        Returns:
            The set-ups of those that came up in time; the others may still come later.

        Raises:
            WrongSetup: a server runs with options that a trainer cannot use.
            NoServerLeft: none came up.
        """
        setups, failures = by_rank_zero(lambda: self._reach(out={}, wait=self.start_timeout))
        if not setups:
            raise NoServerLeft.of(failures)
        return list(setups.values())

    def push(self, model: nn.Module, fleet: Fleet[RemoteEngine], version: str) -> list[Setup]:
        """Weights to all servers that are up, those that were out included. A collective.

        Returns:
            The set-ups of the servers that are in use now.

        Raises:
            WrongSetup: a server runs with options that a trainer cannot use.
            NoServerLeft: none has the weights.
        """
        setups, failures = by_rank_zero(lambda: self._reach(out=dict(fleet.out), wait=0.0))
        able = [engine for engine in self.engines if engine.url in setups]
        fresh = {url for url in setups if url in fleet.out or not self._pushed}
        self._pushed = True
        for engine in able:
            engine.restart()
        if able:
            failures |= self.transport.push(model, able, version, fresh)
        for engine in self.engines:
            if engine.url in failures:
                fleet.take_out(engine.url, failures[engine.url])
            else:
                fleet.readmit(engine.url)
        fleet.require_live()
        return [setup for url, setup in setups.items() if url not in failures]

    def _reach(self, *, out: Failures, wait: float) -> tuple[dict[str, Setup], Failures]:
        """Set-ups of the servers that answer, and why the others do not; on rank 0."""
        found: dict[str, Setup] = {}

        def ask(engine: RemoteEngine) -> None:
            engine.restart()
            # A server that is out, and has not come back, is not worth retries.
            if engine.url in out and not engine.healthy():
                raise ServerError(out[engine.url])
            found[engine.url] = engine.setup()

        if wait > 0:
            self._wait(wait)
        failures = on_each(self.engines, ask)
        wanted = self.transport.backend
        for url, setup in found.items():
            if wanted is not None and setup.weight_transfer != wanted:
                raise WrongSetup(
                    f"{url} runs with weight transfer {setup.weight_transfer!r}, but the sampler "
                    f"sends weights by {wanted!r}; {START_HINT}"
                )
        return {url: found[url] for url in sorted(found)}, failures

    def _wait(self, seconds: float) -> None:
        """Until all servers are up, or `seconds` are over."""
        end, said = time.monotonic() + seconds, 0.0
        while missing := [engine.url for engine in self.engines if not engine.healthy()]:
            now = time.monotonic()
            if now >= end:
                return
            if now >= said + 10:
                rank_zero_info(f"waiting for {', '.join(missing)} ({end - now:.0f} s left)")
                said = now
            time.sleep(0.5)


def on_each(engines: Sequence[RemoteEngine], action: Callable[[RemoteEngine], None]) -> Failures:
    """Do `action` on all `engines` at once; a `ServerError` is one server's, others are raised."""

    def attempt(engine: RemoteEngine) -> tuple[str, str] | None:
        try:
            action(engine)
        except ServerError as error:
            return engine.url, str(error)
        return None

    with ThreadPoolExecutor(max_workers=len(engines)) as pool:
        return dict(failure for failure in pool.map(attempt, engines) if failure is not None)

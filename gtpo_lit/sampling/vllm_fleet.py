"""Spreads jobs over servers; what a dead server had in hand is done by the others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from gtpo_lit.sampling.vllm_http import RequestRefused, ServerError, UnusableAnswer
from gtpo_lit.sampling.vllm_work import Answer, Job, Work

log = logging.getLogger(__name__)

WIND_UP_SECONDS = 5.0

Server = TypeVar("Server", bound="Worker")


class Worker(Protocol):
    """What the fleet needs of a server."""

    url: str

    def healthy(self) -> bool:
        """Whether it answers, and soon."""

    def stop(self) -> None:
        """Give up every request under way, and refuse new ones."""

    def restart(self) -> None:
        """Take requests again after `stop`."""


class NoServerLeft(ServerError):
    """Every server is out of use; the message says why, one by one."""

    @classmethod
    def of(cls, reasons: Mapping[str, str]) -> NoServerLeft:
        """With the reason for each server by its URL."""
        listed = "; ".join(f"{url}: {reason}" for url, reason in sorted(reasons.items()))
        return cls(f"no vLLM server is left of {len(reasons)}: {listed}")


class Fleet(Generic[Server]):
    """Servers by URL, those in use and those that are out, with the reason.

    Args:
        servers: all of them.
        first: which one gets the first job; ranks start at different ones.
        in_flight: jobs that one server has in hand at a time.
        health_interval: seconds between two looks at a server that has jobs in hand.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        first: int = 0,
        in_flight: int = 64,
        health_interval: float = 10.0,
    ) -> None:
        start = first % len(servers)
        self.servers = {server.url: server for server in [*servers[start:], *servers[:start]]}
        self.in_flight = in_flight
        self.health_interval = health_interval
        self.out: dict[str, str] = {}
        self.redone = 0
        """Jobs that were done again since the server that had them fell out."""
        self._lock = threading.Lock()

    @property
    def live(self) -> list[Server]:
        """The servers in use."""
        return [server for url, server in self.servers.items() if url not in self.out]

    def take_out(self, url: str, reason: str) -> None:
        """Use a server no longer, and give up what it has in hand."""
        with self._lock:
            if url in self.out:
                return
            self.out[url] = reason
        log.warning("%s is out of use: %s", url, reason)
        self.servers[url].stop()

    def require_live(self) -> None:
        """Raise NoServerLeft if every server is out."""
        if not self.live:
            raise NoServerLeft.of(self.out)

    def run(
        self, jobs: Sequence[Job], do: Callable[[Server, Job], Answer]
    ) -> tuple[list[Answer | None], dict[int, ServerError]]:
        """Answers to all jobs, in order; `do` is called from many threads.

        A free server takes the next job, so that a slow one gets fewer. A `ServerError` takes the
        server out, and its jobs go to the others, from the front of the queue. An
        `UnusableAnswer` is the server's fault if another one gives a usable answer, and the
        job's if none does.

        Returns:
            The answers, None for the jobs that were refused, and those jobs with the reason.

        Raises:
            NoServerLeft: no server is left, and jobs are.
        """
        work: Work[Job, Answer] = Work(jobs)
        each = min(self.in_flight, len(jobs))
        threads = [
            threading.Thread(target=self._serve, args=(server, work, do), daemon=True)
            for _ in range(each)
            for server in self.live
        ]
        for thread in threads:
            thread.start()
        try:
            self._watch(work, threads)
        except BaseException as error:  # Ctrl-C, for one: nothing may go on behind the back
            work.broken = error
        self._wind_up(work, threads)
        if work.broken is not None:
            raise work.broken
        if not work.done:
            self.require_live()
        return [work.answers.get(index) for index in range(len(jobs))], work.refused

    def _serve(
        self, server: Server, work: Work[Job, Answer], do: Callable[[Server, Job], Answer]
    ) -> None:
        """One thread's loop: jobs for one server, until all are done or the server is out."""
        while (index := self._next(server, work)) is not None:
            try:
                answer = do(server, work.jobs[index])
            except RequestRefused as error:
                with work.changed:
                    work.refused[index] = error
                    work.changed.notify_all()
            except UnusableAnswer as error:
                with work.changed:
                    work.doubt(index, server.url, error)
                    work.changed.notify_all()
            except ServerError as error:
                self.take_out(server.url, str(error))
                with work.changed:
                    work.waiting.appendleft(index)
                    self.redone += 1
                    work.changed.notify_all()
            except BaseException as error:
                with work.changed:
                    work.broken = error
                    work.changed.notify_all()
            else:
                with work.changed:
                    faulty = work.answer(index, answer)
                    self.redone += bool(faulty)
                    work.changed.notify_all()
                for url, reason in faulty.items():
                    self.take_out(url, str(reason))

    def _next(self, server: Server, work: Work[Job, Answer]) -> int | None:
        with work.changed:
            # An idle server waits: what another has in hand may come back.
            while not work.done and server.url not in self.out:
                index = work.take(server.url, [one.url for one in self.live])
                if index is not None:
                    return index
                if work.done:  # what nobody can answer was given up
                    work.changed.notify_all()
                else:
                    work.changed.wait(timeout=1.0)
            return None

    def _watch(self, work: Work[Job, Answer], threads: Sequence[threading.Thread]) -> None:
        """Wait for the end; a server that falls silent meanwhile is taken out."""
        look = time.monotonic() + self.health_interval
        while True:
            with work.changed:
                if work.done or not any(thread.is_alive() for thread in threads):
                    return
                work.changed.wait(timeout=min(1.0, self.health_interval))
            if time.monotonic() >= look:
                for server in self.live:
                    if not server.healthy():
                        self.take_out(server.url, "the health check fails")
                look = time.monotonic() + self.health_interval

    def _wind_up(self, work: Work[Job, Answer], threads: Sequence[threading.Thread]) -> None:
        """Let no thread outlive the call; after a failure, what is under way is given up."""
        with work.changed:
            work.changed.notify_all()
        if work.broken is not None:
            for server in self.live:
                server.stop()
        for thread in threads:
            thread.join(timeout=WIND_UP_SECONDS)
        if work.broken is not None:
            for server in self.live:
                server.restart()

    def readmit(self, url: str) -> None:
        """Use a server again; its weights are new."""
        with self._lock:
            reason = self.out.pop(url, None)
        if reason is not None:
            log.warning("%s is in use again", url)

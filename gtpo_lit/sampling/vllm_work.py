"""Who does which job next, and whose fault it is that one cannot be done: a job's or a server's."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gtpo_lit.sampling.vllm_http import ServerError, UnusableAnswer

Job = TypeVar("Job")
Answer = TypeVar("Answer")


@dataclass
class Work(Generic[Job, Answer]):
    """Jobs of one call, behind one lock; whoever changes something holds `changed`."""

    jobs: Sequence[Job]
    waiting: deque[int] = field(init=False)
    answers: dict[int, Answer] = field(default_factory=dict)
    refused: dict[int, ServerError] = field(default_factory=dict)
    """Jobs that are given up, with the reason."""
    doubts: dict[int, dict[str, UnusableAnswer]] = field(default_factory=dict)
    """Jobs to which servers gave unusable answers, by the server's URL."""
    broken: BaseException | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.waiting = deque(range(len(self.jobs)))

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        settled = len(self.answers) + len(self.refused)
        return self.broken is not None or settled == len(self.jobs)

    def take(self, url: str, live: Collection[str]) -> int | None:
        """The next job for server `url`; None if there is none for it now.

        A job goes to no server that gave it an unusable answer before. One that every server in
        use answered so is given up: the fault is its own.

        Args:
            url: of a server in use.
            live: the URLs of all servers in use.
        """
        for index in list(self.waiting):
            tried = self.doubts.get(index, {})
            if tried and live and tried.keys() >= set(live):
                self.waiting.remove(index)
                self.refused[index] = list(tried.values())[-1]
            elif url not in tried:
                self.waiting.remove(index)
                return index
        return None

    def doubt(self, index: int, url: str, error: UnusableAnswer) -> None:
        """Let the other servers try a job to which `url` gave an unusable answer."""
        self.doubts.setdefault(index, {})[url] = error
        self.waiting.appendleft(index)

    def answer(self, index: int, answer: Answer) -> dict[str, UnusableAnswer]:
        """Take an answer in; the servers that could not give one, whose fault it was."""
        self.answers[index] = answer
        return self.doubts.pop(index, {})

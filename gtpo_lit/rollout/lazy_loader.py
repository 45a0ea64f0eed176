"""A loader that does nothing before its first batch is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class LazyLoader(Generic[Item]):
    """A loader with a length over a generator.

    Lightning fetches one batch ahead from loaders without a length; with one it does not, so what
    this yields is made with the weights of the moment.
    """

    def __init__(self, length: int, generate: Callable[[], Iterator[Item]]) -> None:
        self._length = length
        self._generate = generate

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Item]:
        return self._generate()

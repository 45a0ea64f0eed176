"""The piece of text that each token adds, such that a reader needs no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# What a decoder writes for bytes that are no whole character.
BROKEN = "\ufffd"


class TokenPieces:
    """Splits a decoded response at its tokens; remembers what single tokens decode to.

    Most tokens decode the same alone as in their text, so a response is put together from those and
    checked against the whole. Where that fails (characters of several tokens, decoders that drop a
    leading space) the text is decoded prefix by prefix over a short window.

    >>> words = {1: "The", 2: " sum"}
    >>> TokenPieces(lambda ids: "".join(words[i] for i in ids))([1, 2, 1])
    ('The', ' sum', 'The')
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        """Take a decoder that shows special tokens and cleans nothing up."""
        self._decode = decode
        self._alone: dict[int, str] = {}

    def __call__(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One piece a token; joined they are `decode(ids)`."""
        ids = list(ids)
        for token in set(ids) - self._alone.keys():
            self._alone[token] = self._decode([token])
        whole = self._decode(ids)
        pieces = [self._alone[token] for token in ids]
        if BROKEN not in whole and "".join(pieces) == whole:
            return tuple(pieces)
        pieces = self._by_prefixes(ids)
        return tuple(pieces if "".join(pieces) == whole else _rest_on_last(pieces, whole))

    def _by_prefixes(self, ids: list[int]) -> list[str]:
        pieces: list[str] = []
        start = read = 0  # the window, and what of it is told already
        for end in range(1, len(ids) + 1):
            told, known = self._decode(ids[start:read]), self._decode(ids[start:end])
            if known.endswith(BROKEN) and end < len(ids):
                pieces.append("")
                continue
            pieces.append(known[len(told) :])
            start, read = read, end
        return pieces


def _rest_on_last(pieces: list[str], whole: str) -> list[str]:
    """Pieces that join to the whole for sure: from the first that differs on, all on the last."""
    at, kept = 0, []
    for piece in pieces:
        if not whole.startswith(piece, at):
            break
        kept.append(piece)
        at += len(piece)
    kept += [""] * (len(pieces) - len(kept))
    if kept:
        kept[-1] += whole[at:]
    return kept

"""What becomes of prompts that are too long: dropped whole, refused, or cut inside the question."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

LongPrompts = Literal["drop", "error", "cut"]

CUT_MARK = " ... "
"""Stands where a question was cut."""


def cut_text(text: str, fits: Callable[[str], bool]) -> str | None:
    """The start and the end of a text, with `CUT_MARK` between them, as much of both as fits.

    Questions of word problems stand at the end and their setting at the start, so the middle goes.

    Args:
        text: what to cut.
        fits: whether a text is short enough. It is asked about log2(length) times.

    Returns:
        The whole text if that fits; None if not even one letter of each side does.

    >>> cut_text("abcdefghij", lambda text: len(text) <= 9), cut_text("abc", lambda text: False)
    ('ab ... ij', None)
    """
    if fits(text):
        return text
    fitting: str | None = None
    low, high = 1, (len(text) - 1) // 2
    while low <= high:
        side = (low + high) // 2
        shorter = text[:side] + CUT_MARK + text[-side:]
        if fits(shorter):
            fitting, low = shorter, side + 1
        else:
            high = side - 1
    return fitting


def fit_prompts(
    prompts: Sequence[Sequence[int]],
    max_prompt_tokens: int | None,
    *,
    long_prompts: Literal["drop", "error"] = "drop",
) -> tuple[list[int], int]:
    """Leave out prompts that are too long, whole: none is ever cut.

    Args:
        prompts: token ids of each prompt.
        max_prompt_tokens: the longest that is kept; None keeps all.
        long_prompts: "drop" leaves longer ones out, "error" raises.

    Returns:
        The indices of the prompts that are kept, in order, and the number of those left out.

    Raises:
        ValueError: if an option is out of range, or a prompt is too long under "error".

    >>> fit_prompts([[1], [1, 2, 3], [1, 2]], 2)
    ([0, 2], 1)
    """
    if long_prompts not in ("drop", "error"):
        raise ValueError(f"long_prompts must be 'drop' or 'error', got {long_prompts!r}")
    if max_prompt_tokens is None:
        return list(range(len(prompts))), 0
    if max_prompt_tokens < 1:
        raise ValueError(f"max_prompt_tokens must be at least 1, got {max_prompt_tokens}")
    kept = [index for index, ids in enumerate(prompts) if len(ids) <= max_prompt_tokens]
    dropped = len(prompts) - len(kept)
    if dropped and long_prompts == "error":
        raise ValueError(
            f"{dropped} of {len(prompts)} prompts are longer than "
            f"max_prompt_tokens={max_prompt_tokens} (the longest has "
            f"{max(map(len, prompts))}); raise it, or set long_prompts='drop'"
        )
    return kept, dropped

"""An engine's answers, sorted out: one bad request costs itself, never the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.sampling.vllm_requests import EngineError, EngineRequest, read_output
from gtpo_lit.types import Completion, SampleRequest

log = logging.getLogger(__name__)

Answer = Any
"""A `vllm.RequestOutput`, or the exception that came in its place."""


def answer_all(
    planned: Sequence[EngineRequest],
    generate: Callable[[Sequence[EngineRequest]], list[Any]],
    abort: Callable[[], None],
) -> list[Answer]:
    """An answer for each request, in order; an exception for those that the engine fails on.

    A call that fails is aborted and done again in halves, until the requests that cause the
    failure stand alone.
    """
    if not planned:
        return []
    try:
        return generate(planned)
    except Exception as error:
        abort()
        if len(planned) == 1:
            return [error]
    middle = len(planned) // 2
    halves = planned[:middle], planned[middle:]
    return [answer for half in halves for answer in answer_all(half, generate, abort)]


def read_answers(
    requests: Sequence[SampleRequest],
    planned: Sequence[EngineRequest],
    answers: Sequence[Answer],
    policy: CausalPolicy,
    *,
    too_long: Sequence[int],
    max_model_len: int | None,
) -> list[list[Completion]]:
    """The completions of each of `requests`; none, and a warning, for one without an answer.

    Args:
        requests: all that were asked for.
        planned: those that were submitted.
        answers: to each of `planned`.
        policy: whose end tokens and tokenizer read the answers.
        too_long: places of the requests that were not submitted, as they fill the engine's limit.
        max_model_len: that limit, in tokens.

    Raises:
        EngineError: there are requests, and not a single one was answered.
    """
    found: list[list[Completion]] = [[] for _ in requests]
    failures: list[Exception] = []
    for request, answer in zip(planned, answers, strict=True):
        try:
            if isinstance(answer, Exception):
                raise answer
            found[request.place] = read_output(
                request,
                answer,
                end_token_ids=policy.end_token_ids,
                decode=lambda ids: str(policy.tokenizer.decode(ids, skip_special_tokens=True)),
            )
        except Exception as error:
            failures.append(error)
            log.warning(
                "the engine failed on request %d, whose problem is dropped (%s: %s); its prompt: "
                "%r",
                request.place,
                type(error).__name__,
                error,
                policy.tokenizer.decode(list(request.prompt_ids)),
            )
    if too_long:
        log.warning(
            "%d of %d prompts fill the engine's %s positions and were dropped; the first: %r",
            len(too_long),
            len(requests),
            max_model_len,
            policy.tokenizer.decode(list(requests[too_long[0]].prompt_ids))[:200],
        )
    if requests and not any(found):
        raise EngineError(f"the engine answered none of {len(requests)} requests") from (
            failures[0] if failures else None
        )
    return found

"""What vLLM is asked, in its own words, and its answers as completions; for both vLLM samplers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gtpo_lit.sampling.settings import check_settings
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings

HIGHEST_TEMPERATURE = 2.0


class EngineError(RuntimeError):
    """The engine failed, or gave an answer that must not be trained on."""


@dataclass(frozen=True, kw_only=True)
class EngineRequest:
    """One request to an engine: a prompt with all its completions."""

    place: int
    """Index of the `SampleRequest` that it serves."""
    prompt_ids: tuple[int, ...]
    params: dict[str, Any]
    """Keyword arguments of `vllm.SamplingParams`; all of them are JSON."""
    copies: int
    """Completions wanted from each that the engine returns: all of them under greedy decoding,
    which vLLM does once a prompt, else 1."""


def check_vllm_settings(settings: SamplingSettings) -> None:
    """Raise ValueError on values out of range, and on temperatures that vLLM refuses."""
    check_settings(settings)
    if settings.temperature > HIGHEST_TEMPERATURE:
        raise ValueError(
            f"temperature must be at most {HIGHEST_TEMPERATURE:g} with vLLM, "
            f"got {settings.temperature}"
        )


def plan_requests(
    requests: Sequence[SampleRequest],
    settings: SamplingSettings,
    *,
    end_token_ids: Sequence[int],
    max_model_len: int | None,
    per_request_seeds: bool,
) -> tuple[list[EngineRequest], list[int]]:
    """One engine request for each prompt that fits, and the places of the prompts that do not.

    A prompt must leave room for one token at least; `max_tokens` shrinks to the room there is.

    Args:
        requests: prompts with their seeds.
        settings: how to sample.
        end_token_ids: every token that ends a response.
        max_model_len: longest sequence of the engine, prompt and response together; None if it
            sets no limit.
        per_request_seeds: give every request a stream of its own (see `engine_seed`).

    Raises:
        ValueError: settings out of range, an empty prompt, or a request without seeds.
    """
    check_vllm_settings(settings)
    planned, too_long = [], []
    for place, request in enumerate(requests):
        length, samples = len(request.prompt_ids), len(request.seeds)
        if length == 0 or samples == 0:
            raise ValueError(
                f"request {place} needs a prompt and a seed, got {length} token(s) and "
                f"{samples} seed(s)"
            )
        room = settings.max_tokens if max_model_len is None else max_model_len - length
        if room < 1:
            too_long.append(place)
            continue
        greedy = settings.temperature == 0
        params = {
            "n": 1 if greedy else samples,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "min_p": settings.min_p,
            "max_tokens": min(settings.max_tokens, room),
            "stop_token_ids": list(end_token_ids),
            "detokenize": False,
        }
        if reports_logprobs(settings):
            params["logprobs"] = 0  # of the sampled token alone
        if per_request_seeds and not greedy:
            params["seed"] = engine_seed(request.seeds)
        planned.append(
            EngineRequest(
                place=place,
                prompt_ids=tuple(request.prompt_ids),
                params=params,
                copies=samples if greedy else 1,
            )
        )
    return planned, too_long


def engine_seed(seeds: Sequence[int]) -> int:
    """The seed of a request for `len(seeds)` completions, a function of the first one's stream.

    vLLM gives the completions of a request the seeds s, s + 1, ..., s + n - 1. The 62 low bits
    leave room for them below the largest 64-bit number.

    >>> engine_seed((2**62 + 7, 5))
    7
    """
    return seeds[0] % 2**62


def reports_logprobs(settings: SamplingSettings) -> bool:
    """Whether the engine's log-probs are those of the whole softmax at the temperature.

    With top-p, top-k or min-p vLLM reports those of the distribution that is left, which no
    trainer computes; they are not asked for then.
    """
    return settings.top_p == 1 and settings.top_k == 0 and settings.min_p == 0


def read_output(
    request: EngineRequest,
    output: Any,
    *,
    end_token_ids: Sequence[int],
    decode: Callable[[list[int]], str],
) -> list[Completion]:
    """The completions of a `vllm.RequestOutput`, in sample order.

    Raises:
        EngineError: not as many completions as were asked for, or one that `read_completion`
            refuses.
    """
    answers = sorted(output.outputs, key=lambda answer: answer.index)
    if [answer.index for answer in answers] != list(range(request.params["n"])):
        raise EngineError(
            f"asked for {request.params['n']} completions, the engine returned those numbered "
            f"{[answer.index for answer in answers]}"
        )
    completions = []
    for answer in answers:
        logprobs = None
        if "logprobs" in request.params:
            steps = zip(answer.logprobs or (), answer.token_ids, strict=False)
            logprobs = [step[token].logprob for step, token in steps]
        completions.append(
            read_completion(
                answer.token_ids,
                logprobs,
                answer.finish_reason,
                end_token_ids=end_token_ids,
                decode=decode,
            )
        )
    return [completion for completion in completions for _ in range(request.copies)]


def read_completion(
    token_ids: Sequence[int],
    logprobs: Sequence[float] | None,
    finish_reason: str | None,
    *,
    end_token_ids: Sequence[int],
    decode: Callable[[list[int]], str],
) -> Completion:
    """One answer of the engine as a completion: its tokens as they are, nothing added or cut.

    Args:
        token_ids: the sampled tokens, an end token included.
        logprobs: of each of them at the sampling temperature; None where none were asked for.
        finish_reason: in vLLM's words.
        end_token_ids: every token that ends a response.
        decode: tokens to text, without special tokens.

    Raises:
        EngineError: no tokens, another reason than "stop" and "length", a stop on a token that
            is no end token, or log-probs that are not finite or not one a token.
    """
    tokens = tuple(token_ids)
    if not tokens:
        raise EngineError(f"an empty completion (finish reason {finish_reason!r})")
    stopped = tokens[-1] in end_token_ids
    if finish_reason not in ("stop", "length"):
        raise EngineError(f"a completion ended with finish reason {finish_reason!r}")
    if finish_reason == "stop" and not stopped:
        raise EngineError(
            f"the engine stopped on token {tokens[-1]}, which is none of the end tokens "
            f"{list(end_token_ids)}"
        )
    if logprobs is not None and (
        len(logprobs) != len(tokens) or not all(map(math.isfinite, logprobs))
    ):
        raise EngineError(
            f"{len(logprobs)} log-probs for {len(tokens)} tokens, or some are not finite"
        )
    return Completion(
        token_ids=tokens,
        # An end token need not be special for the tokenizer; it is never part of the text.
        text=decode(list(tokens[:-1] if stopped else tokens)),
        finish_reason="stop" if stopped else "length",
        logprobs=None if logprobs is None else tuple(logprobs),
    )

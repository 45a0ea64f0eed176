"""The JSON answer of a vLLM server as completions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gtpo_lit.sampling.vllm_requests import EngineError, EngineRequest, read_completion
from gtpo_lit.types import Completion


class OtherWeights(EngineError):
    """The completions are fine, but not of the weights that were pushed last."""


def read_choices(
    request: EngineRequest,
    answer: Any,
    *,
    version: str,
    end_token_ids: Sequence[int],
    decode: Callable[[list[int]], str],
) -> list[Completion]:
    """The completions in the JSON answer of ``/inference/v1/generate``, in sample order.

    Raises:
        EngineError: not as many as asked for, or a completion that `read_completion` refuses.
        OtherWeights: some token was drawn with other weights than `version`.
        KeyError, TypeError, ValueError: the answer has another form.
    """
    choices = sorted(answer["choices"], key=lambda choice: choice["index"])
    numbers = [choice["index"] for choice in choices]
    if numbers != list(range(request.params["n"])):
        raise EngineError(
            f"asked for {request.params['n']} completions, got those numbered {numbers}"
        )
    completions = []
    for choice in choices:
        spans = choice["weight_versions"] or []
        used = sorted({span["version"] for span in spans})
        if used != [version]:
            raise OtherWeights(f"drawn with weights {used}, not with {version!r}")
        logprobs = None
        if "logprobs" in request.params:
            steps = choice["logprobs"]["content"]
            logprobs = [float(step["logprob"]) for step in steps]
            if [step["token_id"] for step in steps] != choice["token_ids"]:
                raise EngineError("the log-probs are those of other tokens")
        tokens = [_token(value) for value in choice["token_ids"]]
        completions.append(
            read_completion(
                tokens,
                logprobs,
                choice["finish_reason"],
                end_token_ids=end_token_ids,
                decode=decode,
            )
        )
        if len(tokens) > request.params["max_tokens"]:
            raise EngineError(f"{len(tokens)} tokens, {request.params['max_tokens']} allowed")
    return [completion for completion in completions for _ in range(request.copies)]


def _token(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise EngineError(f"{value!r} is no token id")
    return value

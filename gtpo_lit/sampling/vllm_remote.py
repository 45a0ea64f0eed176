"""One `vllm serve` process, seen from the trainer: its set-up, its weights, its completions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gtpo_lit.sampling.vllm_choices import OtherWeights, read_choices
from gtpo_lit.sampling.vllm_http import (
    HTTPClient,
    RequestRefused,
    ServerError,
    UnusableAnswer,
    wait_until,
)
from gtpo_lit.sampling.vllm_requests import EngineError, EngineRequest
from gtpo_lit.types import Completion

log = logging.getLogger(__name__)

HEALTH_TIMEOUT = 10.0
RESET_ATTEMPTS = 20

START_HINT = "start the servers with scripts/serve_vllm.py, which sets what they need"


class WrongSetup(ValueError):
    """A server runs with options that a trainer cannot use."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a server says of itself."""

    max_model_len: int
    max_num_seqs: int
    weight_transfer: str | None
    """Backend of vLLM's own weight transfer, if any."""


class RemoteEngine:
    """The routes of one server that a sampler needs. Safe to use from many threads.

    Args:
        url: such as ``http://127.0.0.1:8000``.
        retries: of a request that may be repeated.
        request_timeout: seconds for the completions of one prompt.
        push_timeout: seconds for one step of a weight update.
        backoff: seconds before the first retry.
    """

    def __init__(
        self,
        url: str,
        *,
        retries: int,
        request_timeout: float,
        push_timeout: float,
        backoff: float = 0.5,
    ) -> None:
        self.client = HTTPClient(url, retries=retries, backoff=backoff)
        self.url = self.client.url
        self.request_timeout = request_timeout
        self.push_timeout = push_timeout

    def healthy(self) -> bool:
        """Whether the server answers now; asked once."""
        try:
            self.client.get("/health", timeout=HEALTH_TIMEOUT, retries=0)
        except ServerError:
            return False
        return True

    def stop(self) -> None:
        """Give up every request under way, and refuse new ones."""
        self.client.stop()

    def restart(self) -> None:
        """Take requests again after `stop`."""
        self.client.restart()

    def setup(self) -> Setup:
        """Ask the server how it was started.

        Raises:
            WrongSetup: it lacks what a trainer needs, or its log-probs are not those of the
                distribution that it samples from.
        """
        try:
            answer = self._rpc("gtpo_lit_setup")
        except RequestRefused as error:
            raise WrongSetup(f"{error}: weights cannot be pushed to it; {START_HINT}") from error
        mode = answer.get("logprobs_mode", "").lower().rpartition(".")[2]
        if mode != "processed_logprobs":
            raise WrongSetup(
                f"{self.url} runs with --logprobs-mode {mode}, whose log-probs ignore the sampling "
                f"temperature; it must be processed_logprobs. {START_HINT}"
            )
        try:
            return Setup(
                max_model_len=int(answer["max_model_len"]),
                max_num_seqs=int(answer["max_num_seqs"]),
                weight_transfer=answer["weight_transfer"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(f"{self.url}: unusable set-up {answer!r}") from error

    def weight_version(self) -> str:
        """The label of the weights that it runs with; "default" if none were ever pushed."""
        answer = self.client.get("/weight_info", timeout=HEALTH_TIMEOUT)
        return str(_field(self.url, answer, "weight_version"))

    def pause(self) -> None:
        """Give up whatever is under way; requests must wait until `commit`."""
        self.client.post("/pause", query={"mode": "abort"}, timeout=self.push_timeout)

    def load_file(self, path: str) -> None:
        """Let every worker load its part of all parameters from a safetensors file."""
        self._rpc("gtpo_lit_load", path, retries=0)

    def commit(self, version: str) -> None:
        """Name the new weights, forget everything computed with the old ones, and go on.

        The prefix cache is reset after the weights are all there and before requests are taken
        again. A server on which any of it fails stays paused.

        Args:
            version: the label that every token will carry.
        """
        body = {"new_version": version}
        self.client.post("/update_weight_version", body, timeout=self.push_timeout)
        self.reset_prefix_cache()
        self.client.post("/resume", timeout=self.push_timeout)

    # NCCL, by vLLM's own weight transfer. Nothing here may happen twice, so it is never retried.

    def workers(self) -> int:
        """How many processes hold a part of the model."""
        answer = self.client.get("/get_world_size", timeout=HEALTH_TIMEOUT)
        return int(_field(self.url, answer, "world_size"))

    def init_transfer(self, info: dict[str, Any]) -> None:
        """Let the workers join the trainer's group; once for each server process."""
        self._once("/init_weight_transfer_engine", {"init_info": info})

    def start_transfer(self) -> None:
        """Make ready for new weights, whatever an earlier trainer left half done."""
        self._rpc("gtpo_lit_abandon_transfer")
        self._once("/start_weight_update")

    def receive(self, info: dict[str, Any]) -> None:
        """Let all workers take in what the trainer sends meanwhile."""
        self._once("/update_weights", {"update_info": info})

    def finish_transfer(self) -> None:
        """Put the new weights to work."""
        self._once("/finish_weight_update", {})

    def reset_prefix_cache(self) -> None:
        """Drop all cached keys and values.

        Raises:
            ServerError: the server would not do it; its cache may be stale.
        """

        def reset() -> bool:
            answer = self.client.post("/reset_prefix_cache", timeout=self.push_timeout)
            return bool(_field(self.url, answer, "success"))

        # A server says no while blocks are still being given back.
        if not wait_until(reset, timeout=RESET_ATTEMPTS * 0.1, interval=0.1):
            raise ServerError(f"{self.url}: the prefix cache could not be reset")

    def generate(
        self,
        request: EngineRequest,
        *,
        version: str,
        end_token_ids: Sequence[int],
        decode: Callable[[list[int]], str],
    ) -> list[Completion]:
        """The completions of one prompt, in sample order.

        An unusable answer is asked for again, as often as a request that fails.

        Raises:
            RequestRefused: the server calls the request wrong.
            UnusableAnswer: what it answers is nonsense, each time.
            ServerError: it failed, or drew with other weights than `version`.
        """
        name = f"{self.url}/inference/v1/generate"
        body = {"token_ids": list(request.prompt_ids), "sampling_params": request.params}
        left, pause = self.client.retries, self.client.backoff
        while True:
            answer = self.client.post("/inference/v1/generate", body, timeout=self.request_timeout)
            try:
                return read_choices(
                    request, answer, version=version, end_token_ids=end_token_ids, decode=decode
                )
            except OtherWeights as error:
                # No use to ask again: it has others until the next push.
                raise ServerError(f"{name}: {error}") from error
            except (EngineError, KeyError, TypeError, ValueError) as error:
                what = f"{name}: unusable answer: {type(error).__name__}: {error}"
                if left == 0 or self.client.pause(pause):
                    raise UnusableAnswer(what) from error
                log.warning("%s; asking again (%d left)", what, left)
            left -= 1
            pause *= 2

    def _once(self, path: str, body: dict[str, Any] | None = None) -> None:
        self.client.post(path, body, timeout=self.push_timeout, retries=0)

    def _rpc(self, method: str, *args: str, retries: int | None = None) -> dict[str, Any]:
        """Call a method of the worker extension on all workers; the first one's answer."""
        body = {"method": method, "args": list(args)}
        answer = self.client.post(
            "/collective_rpc", body, timeout=self.push_timeout, retries=retries
        )
        results = _field(self.url, answer, "results")
        if not isinstance(results, list) or not results or not isinstance(results[0], dict):
            raise ServerError(f"{self.url}: unusable answer to {method}: {answer!r}")
        return dict(results[0])


def _field(url: str, answer: Any, name: str) -> Any:
    if not isinstance(answer, dict) or name not in answer:
        raise ServerError(f"{url}: the answer lacks {name!r}: {answer!r}")
    return answer[name]

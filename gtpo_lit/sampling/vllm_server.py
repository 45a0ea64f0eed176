"""Sampling with `vllm serve` processes, on this machine or on others, over HTTP."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.ranks import by_rank_zero, rank
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.vllm_fleet import Fleet
from gtpo_lit.sampling.vllm_http import ServerError
from gtpo_lit.sampling.vllm_push import Pusher
from gtpo_lit.sampling.vllm_remote import RemoteEngine, Setup
from gtpo_lit.sampling.vllm_requests import (
    EngineError,
    EngineRequest,
    check_vllm_settings,
    plan_requests,
)
from gtpo_lit.sampling.vllm_server_options import (
    TransportName,
    check_numbers,
    check_urls,
    make_transport,
)
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings

log = logging.getLogger(__name__)


class VLLMServerSampler(Sampler):
    """Token ids out, token ids in, over HTTP to one or many `vllm serve` processes.

    Every rank spreads its own requests over all servers; a server that dies, hangs or answers
    nonsense is taken out, and what it had in hand is done by the others. Rank 0 pushes the
    weights. A completion is taken only if every token was drawn with the weights that were pushed
    last, which servers say for each token: one that was restarted in between is taken out, and
    used again after the next push.

    Attributes:
        version: of the weights that were pushed last.
        max_model_len: longest sequence that all servers in use take, prompt and response.
        redone: requests that were done again since a server fell out.
    """

    def __init__(
        self,
        *,
        urls: Sequence[str] = ("http://127.0.0.1:8000",),
        transport: TransportName = "file",
        weights_folder: str | None = None,
        nccl_address: str = "127.0.0.1",
        per_request_seeds: bool = True,
        requests_in_flight: int = 64,
        request_timeout: float = 1800.0,
        push_timeout: float = 240.0,
        start_timeout: float = 240.0,
        health_interval: float = 10.0,
        retries: int = 2,
    ) -> None:
        """Name the servers; nothing is asked of them before the first push.

        Args:
            urls: of all servers, such as ``http://127.0.0.1:8000``.
            transport: `file`, a file that trainer and servers see; or `nccl`, from GPU to GPU.
            weights_folder: where that file is made for the time of a push; shared memory if not
                given, which only servers on this machine see.
            nccl_address: this machine as the servers see it.
            per_request_seeds: draw from the random stream that belongs to the problem, so that
                results depend neither on the number of servers and ranks nor on the batch; costs
                speed.
            requests_in_flight: prompts that one rank has under way at one server.
            request_timeout: seconds that the completions of one prompt may take.
            push_timeout: seconds that one step of a push may take.
            start_timeout: seconds that servers have to come up, at the first push.
            health_interval: seconds between two looks at the servers while they work.
            retries: of a failed request at the same server.

        Raises:
            ValueError: a value out of range, the same server twice, or a server on another
                machine that cannot see the weights file.
        """
        self.urls = check_urls(urls)
        check_numbers(
            requests_in_flight=(requests_in_flight, 1),
            retries=(retries, 0),
            request_timeout=(request_timeout, 0.01),
            push_timeout=(push_timeout, 0.01),
            start_timeout=(start_timeout, 0),
            health_interval=(health_interval, 0.01),
        )
        self.per_request_seeds = per_request_seeds
        self.requests_in_flight = requests_in_flight
        self.health_interval = health_interval
        self.version: int | None = None
        self.max_model_len: int | None = None
        self.redone = 0
        engines = [
            RemoteEngine(
                url, retries=retries, request_timeout=request_timeout, push_timeout=push_timeout
            )
            for url in self.urls
        ]
        self._engines = engines
        self._pusher = Pusher(
            engines,
            make_transport(transport, self.urls, weights_folder, nccl_address),
            start_timeout=start_timeout,
        )
        self._fleet: Fleet[RemoteEngine] | None = None
        self._policy: CausalPolicy | None = None
        self._run = self._label = ""

    def check(self, policy: PolicySpec, settings: Sequence[SamplingSettings]) -> None:
        """See that the settings are of use, and wait for the servers. A collective.

        Raises:
            ValueError: a setting that vLLM refuses; or (`WrongSetup`) a server runs with options
                that a trainer cannot use.
            NoServerLeft: no server came up in time.
        """
        for one in settings:
            check_vllm_settings(one)
        self.max_model_len = _shortest(self._pusher.connect())

    def longest_prompt(self, policy: PolicySpec) -> int | None:
        """One token less than the servers' longest sequence; None before `check`."""
        return None if self.max_model_len is None else self.max_model_len - 1

    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Bring the weights to all servers that are up, those that were out included.

        The first push of a trainer is always made, whatever the servers hold from another one.
        A collective if `version` is new: all ranks call it, and return when rank 0 is done. At a
        known version it does nothing, and ranks need not call it equally often.

        Raises:
            WrongSetup: a server runs with options that a trainer cannot use.
            NoServerLeft: no server has the weights.
            OSError: the weights file cannot be written.
        """
        if self.version == version and self._policy is policy:
            return
        # Until all is done nothing may be drawn.
        self.version = None
        if self._fleet is None:
            self._run = by_rank_zero(lambda: secrets.token_hex(4))
            self._fleet = Fleet(
                self._engines,
                first=rank(),
                in_flight=self.requests_in_flight,
                health_interval=self.health_interval,
            )
        self._label = f"{self._run}-{version}"
        setups = self._pusher.push(policy.model, self._fleet, self._label)
        self.max_model_len = _shortest(setups)
        self._policy, self.version = policy, version

    def reset_prefix_cache(self) -> None:
        """Let all servers in use forget cached keys and values; each rank may call it."""
        for engine in self._fleet.live if self._fleet is not None else []:
            engine.reset_prefix_cache()

    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        `max_tokens` shrinks to what the servers' longest sequence leaves. A prompt that leaves
        no room, and one that a server refuses, gets no completions, and a warning names it.

        Raises:
            ValueError: settings out of range, an empty prompt, or a request without seeds.
            EngineError: every prompt was refused; the fault is not in one prompt then.
            NoServerLeft: all servers failed; the message says how.
        """
        assert self.version is not None, "push_weights comes before generate"
        assert self._policy is not None
        assert self._fleet is not None
        planned, too_long = plan_requests(
            requests,
            settings,
            end_token_ids=self._policy.end_token_ids,
            max_model_len=self.max_model_len,
            per_request_seeds=self.per_request_seeds,
        )
        self._fleet.require_live()
        completions: list[list[Completion]] = [[] for _ in requests]
        before = self._fleet.redone
        answers, refused = self._fleet.run(planned, self._ask)
        self.redone += self._fleet.redone - before
        for request, answer in zip(planned, answers, strict=True):
            completions[request.place] = answer or []
        self._report(requests, too_long, [(planned[i].place, e) for i, e in refused.items()])
        return completions

    def close(self) -> None:
        """Give up what is under way; the servers stay, and a later push is a complete one."""
        for engine in self._engines:
            engine.stop()
        self._fleet = self._policy = self.version = None

    def _ask(self, engine: RemoteEngine, request: EngineRequest) -> list[Completion]:
        assert self._policy is not None
        return engine.generate(
            request,
            version=self._label,
            end_token_ids=self._policy.end_token_ids,
            decode=self._decode,
        )

    def _decode(self, tokens: Sequence[int]) -> str:
        assert self._policy is not None
        return str(self._policy.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _report(
        self,
        requests: Sequence[SampleRequest],
        too_long: Sequence[int],
        refused: Sequence[tuple[int, ServerError]],
    ) -> None:
        """Say which prompts got no answer; raise EngineError if none got one."""
        lost = len(too_long) + len(refused)
        if requests and lost == len(requests):
            first = f"; the first: {refused[0][1]}" if refused else ""
            raise EngineError(f"the servers answered none of {lost} requests{first}")
        for place, error in refused:
            prompt = self._decode(requests[place].prompt_ids)
            log.warning("request %d is dropped: %s; its prompt: %r", place, error, prompt)
        if too_long:
            log.warning(
                "%d of %d prompts fill the servers' %s positions and were dropped; the first: %r",
                len(too_long),
                len(requests),
                self.max_model_len,
                self._decode(requests[too_long[0]].prompt_ids)[:200],
            )


def _shortest(setups: Sequence[Setup]) -> int:
    return min(setup.max_model_len for setup in setups)

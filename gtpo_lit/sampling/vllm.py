"""Sampling with a vLLM engine in the trainer's own process."""

from __future__ import annotations

from collections.abc import Sequence

from lightning.pytorch.utilities import rank_zero_info

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.answers import answer_all, read_answers
from gtpo_lit.sampling.engine_group import EngineGroup, check_size
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.sampling.vllm_checks import (
    EngineDtype,
    EngineOptions,
    check_model,
    max_positions,
    require_vllm,
)
from gtpo_lit.sampling.vllm_engine import InProcessEngine
from gtpo_lit.sampling.vllm_requests import check_vllm_settings, plan_requests
from gtpo_lit.sampling.weights import whole_weights
from gtpo_lit.types import Completion, SampleRequest, SamplingSettings


class VLLMSampler(Sampler):
    """Draws from a `vllm.LLM` beside the policy, one engine for each rank.

    The engine is built at the first push of weights, when the trainer's process group is there.
    Entropies are not reported. Log-probs are those at the sampling temperature; with top-p, top-k
    or min-p, none are reported, as vLLM's then belong to the distribution that is left.

    Attributes:
        version: of the weights that the engine holds; None if it holds none.
    """

    def __init__(
        self,
        *,
        memory_share: float = 0.3,
        kv_cache_mib: int | None = None,
        max_model_len: int | None = None,
        max_num_seqs: int = 256,
        eager: bool | None = None,
        dtype: EngineDtype = "policy",
        tensor_parallel: int = 1,
        sleep: bool = False,
        prefix_caching: bool = True,
        per_request_seeds: bool = True,
    ) -> None:
        """Check and keep the options; nothing of vLLM is loaded yet.

        Args:
            memory_share: share of a GPU's memory for weights, activations and cache, where
                `kv_cache_mib` is not given.
            kv_cache_mib: size of the cache of keys and values in MiB; 512 on a CPU if not given.
            max_model_len: longest sequence, prompt and response together; the policy's number of
                positions if not given.
            max_num_seqs: most sequences that are drawn at a time.
            eager: run the model without compiling it or capturing graphs; true on CPUs and false
                on GPUs if not given.
            dtype: of the engine's weights; `policy` takes the policy's.
            tensor_parallel: ranks that share one engine.
            sleep: give the engine's GPU memory back while the policy trains.
            prefix_caching: reuse keys and values of prompts with the same beginning.
            per_request_seeds: give every completion its own random stream, so that it does not
                depend on the batch or the number of ranks. Off is faster on GPUs; a step still
                repeats under the same seed and number of ranks.

        Raises:
            ValueError: for an option out of range, naming it and its value.
        """
        self.options = EngineOptions(
            memory_share=memory_share,
            kv_cache_mib=kv_cache_mib,
            max_model_len=max_model_len,
            max_num_seqs=max_num_seqs,
            eager=eager,
            dtype=dtype,
            tensor_parallel=tensor_parallel,
            sleep=sleep,
            prefix_caching=prefix_caching,
        )
        self.per_request_seeds = per_request_seeds
        self.version: int | None = None
        self._policy: CausalPolicy | None = None
        self._engine: InProcessEngine | None = None
        self._group: EngineGroup | None = None
        self._asleep = False

    def check(self, policy: PolicySpec, settings: Sequence[SamplingSettings]) -> None:
        """Raise ValueError if vLLM is missing or cannot run the policy or the settings."""
        require_vllm()
        for one in settings:
            check_vllm_settings(one)
        check_size(self.options.tensor_parallel)
        check_model(policy.load_config(), self.options)

    def longest_prompt(self, policy: PolicySpec) -> int | None:
        """One token less than the engine's longest sequence."""
        limit = self.options.max_model_len or max_positions(policy.load_config())
        return None if limit is None else limit - 1

    def push_weights(self, policy: CausalPolicy, version: int) -> None:
        """Copy the policy's weights into the engine, then forget what the old ones computed.

        On every rank at once: the first call builds the engines, and a sharded policy is made
        whole parameter by parameter.

        Raises:
            ValueError: vLLM is not installed.
            RuntimeError: the prefix cache could not be reset, so that old keys might be reused.
        """
        if self.version == version and self._policy is policy:
            return
        # Until all is done the engine holds neither version.
        self.version = None
        if self._engine is None:
            require_vllm()
            rank_zero_info("starting a vLLM engine")
            self._group = EngineGroup(self.options.tensor_parallel)
            self._engine = InProcessEngine(policy, self.options)
        if self._asleep:
            self._engine.wake_up()
            self._asleep = False
        self._engine.load(whole_weights(policy.model))
        self.reset_prefix_cache()
        self._policy, self.version = policy, version

    def reset_prefix_cache(self) -> None:
        """Forget all cached keys and values.

        Raises:
            RuntimeError: some are still in use.
        """
        assert self._engine is not None, "push_weights comes first"
        if not self._engine.reset_prefix_cache():
            raise RuntimeError(
                "vLLM could not reset its prefix cache: it would reuse keys and values of old "
                "weights; set data.sampler.prefix_caching: false"
            )

    def generate(
        self, requests: Sequence[SampleRequest], settings: SamplingSettings
    ) -> list[list[Completion]]:
        """For each request, one completion for each of its seeds, in order.

        A prompt that fills the model's positions is not submitted; `max_tokens` shrinks to the
        positions that are left. An error of the engine costs only the request that causes it. For
        both the list of completions is empty, and a warning names the prompt.

        Raises:
            ValueError: settings out of range, or an empty prompt.
            EngineError: not a single request was answered.
        """
        engine, policy, group = self._engine, self._policy, self._group
        assert self.version is not None, "push_weights comes before generate"
        assert engine is not None and policy is not None and group is not None  # noqa: PT018
        requests, own = group.gather(requests)
        planned, too_long = plan_requests(
            requests,
            settings,
            end_token_ids=policy.end_token_ids,
            max_model_len=engine.max_model_len,
            per_request_seeds=self.per_request_seeds,
        )
        seed = stream_seed("engine", *(seed for request in requests for seed in request.seeds))
        answers = answer_all(planned, lambda part: engine.generate(part, seed), engine.abort)
        completions = read_answers(
            requests,
            planned,
            answers,
            policy,
            too_long=too_long,
            max_model_len=engine.max_model_len,
        )
        return completions[own]

    def rest(self) -> None:
        """With `sleep`, give the GPU memory back; the next push brings the weights again."""
        if self.options.sleep and self._engine is not None and not self._asleep:
            self.version = None
            self._engine.sleep()
            self._asleep = True

    def close(self) -> None:
        """Stop the engine and give its memory back. The next push builds another."""
        engine, self._engine, self._policy, self._group = self._engine, None, None, None
        self.version, self._asleep = None, False
        if engine is not None:
            engine.close()

"""Whether the sampling engine holds the very weights that are trained."""

from __future__ import annotations

import random
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer

from gtpo_lit.types import SampleRequest, SamplingSettings

FULL_PRECISION_TOLERANCE = 1e-3
HALF_PRECISION_TOLERANCE = 0.3
# One token, a few, and enough for several blocks of an engine's prefix cache.
PROMPT_LENGTHS = (1, 12, 300)


class WeightSyncProbe(Callback):
    """Compares the log-probs of the sampling engine with the policy's, on fixed prompts.

    Right after a step's push of weights, and before its first update, the engine draws a few
    tokens for each prompt, and the policy scores them. Logs `train/weight_sync/gap_max` and
    `train/weight_sync/gap_mean`, the largest and the mean distance in nats over these tokens on
    all ranks. The prompts are made of pseudo-random tokens and stay the same, so that an engine
    which reuses what old weights computed for them is found out, too.

    Args:
        every: probe in every so many RL steps, the first one included.
        tokens: drawn for each prompt.
        tolerance: largest gap that passes, in nats. If not given, 0.001 for a policy in float32
            and 0.3 in half precision, where rounding alone comes to some hundredths; an engine in
            a lower precision than the policy's needs a higher one.
    """

    def __init__(self, every: int = 1, tokens: int = 8, tolerance: float | None = None) -> None:
        for name, value in (("every", every), ("tokens", tokens)):
            if value < 1:
                raise ValueError(f"WeightSyncProbe.{name} must be at least 1, got {value}")
        if tolerance is not None and tolerance <= 0:
            raise ValueError(f"WeightSyncProbe.tolerance must be above 0, got {tolerance}")
        self.every = every
        self.tokens = tokens
        self.tolerance = tolerance

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Probe at a step's first micro-batch, where the weights are those that were pushed.

        Raises:
            RuntimeError: on all ranks, if the gap is above the tolerance on any of them.
        """
        if batch_idx > 0 or trainer.current_epoch % self.every > 0:
            return
        sampler = trainer.datamodule.sampler  # type: ignore[attr-defined]  # set by fit, not declared
        # An engine that rests meanwhile is woken with the same weights again.
        sampler.push_weights(pl_module.policy, trainer.global_step)
        highest, mean = self._gap(trainer, pl_module)
        tolerance = self._tolerance(pl_module)
        if not highest <= tolerance:
            raise RuntimeError(self._explain(trainer, pl_module, highest, tolerance))
        sampler.rest()
        for name, value in (("max", highest), ("mean", mean)):
            pl_module.log(
                f"train/weight_sync/gap_{name}",
                torch.tensor(value, dtype=torch.float64),
                on_step=False,
                on_epoch=True,
                batch_size=1,
            )

    def _gap(self, trainer: Trainer, pl_module: Any) -> tuple[float, float]:
        """Largest and mean distance over the probe's tokens on all ranks, in nats."""
        data: Any = trainer.datamodule  # type: ignore[attr-defined]  # set by fit, not declared
        settings = SamplingSettings(temperature=data.sampling.temperature, max_tokens=self.tokens)
        requests = self._requests(data.sampler, pl_module)
        gaps: list[float] = []
        for request, row in zip(requests, data.sampler.generate(requests, settings), strict=True):
            if not row or row[0].logprobs is None:
                raise RuntimeError(
                    "WeightSyncProbe needs the engine's log-probs, but "
                    f"{type(data.sampler).__name__} returned none"
                )
            ours = _score(pl_module.policy, request, row[0].token_ids, settings.temperature)
            gaps += [abs(a - b) for a, b in zip(ours.tolist(), row[0].logprobs, strict=True)]
        gathered: list[Any] = [gaps]
        if dist.is_initialized():
            gathered = [None] * dist.get_world_size()
            dist.all_gather_object(gathered, gaps)
        every = torch.tensor([gap for part in gathered for gap in part], dtype=torch.float64)
        return float(every.max()), float(every.mean())

    def _requests(self, sampler: Any, pl_module: Any) -> list[SampleRequest]:
        stream = random.Random(0)
        vocabulary = min(
            len(pl_module.policy.tokenizer),
            pl_module.policy.model.config.get_text_config().vocab_size,
        )
        longest = sampler.longest_prompt(pl_module.policy_spec) or pl_module.policy.max_positions
        limit = max(1, (longest or max(PROMPT_LENGTHS)) - self.tokens)
        lengths = sorted({min(length, limit) for length in PROMPT_LENGTHS})
        return [
            SampleRequest(
                prompt_ids=tuple(stream.randrange(vocabulary) for _ in range(length)),
                seeds=(seed,),
            )
            for seed, length in enumerate(lengths)
        ]

    def _tolerance(self, pl_module: Any) -> float:
        if self.tolerance is not None:
            return self.tolerance
        exact = next(pl_module.policy.parameters()).dtype == torch.float32
        return FULL_PRECISION_TOLERANCE if exact else HALF_PRECISION_TOLERANCE

    def _explain(self, trainer: Trainer, pl_module: Any, gap: float, tolerance: float) -> str:
        """What is stale: found by removing one suspect after the other."""
        sampler: Any = trainer.datamodule.sampler  # type: ignore[attr-defined]  # set by fit, not declared
        what = (
            f"in RL step {trainer.current_epoch + 1} the log-probs of "
            f"{type(sampler).__name__} (weights of version {sampler.version}) are up to {gap:.2g} "
            f"nats away from the policy's (version {trainer.global_step}), over "
            f"WeightSyncProbe.tolerance = {tolerance:g}: "
        )
        sampler.reset_prefix_cache()
        if self._gap(trainer, pl_module)[0] <= tolerance:
            return what + "its prefix cache is stale; with the cache reset they agree"
        sampler.version = None
        sampler.push_weights(pl_module.policy, trainer.global_step)
        if self._gap(trainer, pl_module)[0] <= tolerance:
            return what + "its weights are stale; with the weights pushed again they agree"
        return what + (
            "pushing all weights again does not help; either some weight never arrives, or the "
            "engine computes in another precision, which needs a higher tolerance"
        )


@torch.no_grad()
def _score(
    policy: Any, request: SampleRequest, token_ids: tuple[int, ...], temperature: float
) -> torch.Tensor:
    """Log-probs [T] of a response under the policy at the sampling temperature."""
    device = next(policy.parameters()).device
    ids = torch.tensor([[*request.prompt_ids, *token_ids]], device=device)
    logp, _ = policy(ids, torch.ones_like(ids).bool(), len(token_ids), temperature=temperature)
    scored: torch.Tensor = logp[0].double().cpu()
    return scored

"""How a run's epochs are fed: one RL step each for training, whole sets for validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar, cast

import torch
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.utilities import rank_zero_warn

from gtpo_lit.rollout.collector import Collector, Drawn
from gtpo_lit.rollout.credit import credited, only_mixed, penalised, without_truncated
from gtpo_lit.rollout.dynamic_sampling import DynamicSampling, Sampled, fill_step
from gtpo_lit.rollout.evaluation_sets import EvaluationSets
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.rollout.host import PolicyHost
from gtpo_lit.rollout.lazy_loader import LazyLoader
from gtpo_lit.rollout.length_penalty import LengthPenalty
from gtpo_lit.rollout.metrics import step_metrics
from gtpo_lit.rollout.micro_batches import Cut
from gtpo_lit.rollout.problem_stream import ProblemStream, share_of
from gtpo_lit.rollout.replica import Replica
from gtpo_lit.rollout.reward_metrics import ConstantRewards, merged, report, reward_metrics
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.types import Graded, Rollouts, SamplingSettings

Item = TypeVar("Item")


class RolloutFeed(LightningDataModule):
    """The loaders of `RolloutDataModule`, which adds the options and their checks.

    Attributes:
        rollouts: the current RL step's rollouts of all ranks, on the CPU.
        graded: the current RL step's graded completions of this rank.
        step_metrics: `train/...` numbers of the current RL step, equal on all ranks.
    """

    problems_per_step: int
    group_size: int
    micro_batches: int
    passes: int
    max_tokens_per_micro_batch: int | None
    dynamic_sampling: DynamicSampling | None
    length_penalties: Sequence[LengthPenalty]
    overlong_filter: bool
    sampling: SamplingSettings
    validation_sets: EvaluationSets
    test_sets: EvaluationSets
    validation_batch: int
    seed: int
    sampler: Sampler
    collector: Collector
    constant_rewards: ConstantRewards

    def __init__(self) -> None:
        super().__init__()
        self.rollouts: Rollouts | None = None
        self.graded: list[Graded] = []
        self.step_metrics: dict[str, float] = {}
        self._in_flight = False
        self._position = 0
        self._warned = False
        self._train: ProblemStream | None = None
        self._evaluated: dict[str, ProblemStream] = {}

    def train_dataloader(self) -> LazyLoader[Rollouts]:
        """The micro-batches of one RL step, collected when the first is asked for."""
        return LazyLoader(len(self._cut()), self._train_step)

    def val_dataloader(self) -> list[LazyLoader[list[Graded]]]:
        """One loader for each validation set; it yields this rank's graded problems."""
        return self._evaluation_loaders(self.validation_sets)

    def test_dataloader(self) -> list[LazyLoader[list[Graded]]]:
        """The same for the sets of `test`."""
        return self._evaluation_loaders(self.test_sets)

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Graded problems hold no tensors and stay as they are."""
        return batch.to(device) if isinstance(batch, Rollouts) else batch

    def _train_step(self) -> Iterator[Rollouts]:
        host, cut = self._host, self._cut()
        self._in_flight = True
        self.collector.seconds = {}
        with self.collector.timed("push"):
            self.sampler.push_weights(host.policy, self._trainer.global_step)
        answered, self.graded, drawn_metrics = self._groups(self._trainer.current_epoch)
        self.sampler.rest()
        rollouts = self.collector.collect(
            answered, self.graded, self.sampling, host.policy, host.reference
        )
        if self.dynamic_sampling is not None:
            rollouts = only_mixed(rollouts)
        if self.overlong_filter:
            rollouts = without_truncated(rollouts)
        rollouts = penalised(rollouts, self.length_penalties, max_tokens=self.sampling.max_tokens)
        self.rollouts = credited(rollouts, host.algorithm)
        rewards = merged(all_gather(report(self.graded)))
        self.step_metrics = {
            **step_metrics(self.rollouts, host.algorithm, self.collector.correction),
            **reward_metrics(rewards),
            **self.constant_rewards.update(rewards),
            **drawn_metrics,
        }
        self._warn_of_missing_logprobs(self.step_metrics["train/sampler_gap/missing_fraction"])
        batches = cut.yield_for(
            Replica.of(self._trainer).index, self.rollouts, host.algorithm, self._rescore
        )
        for number, batch in enumerate(batches, start=1):
            # Lightning stops asking after the last batch, so the flag falls before it is yielded.
            self._in_flight = number < len(cut)
            yield batch

    def _groups(self, step: int) -> tuple[list[Drawn], list[Graded], dict[str, float]]:
        """This rank's share of the step's groups, and `train/...` numbers of all ranks."""
        assert self._train is not None
        lost = 0

        def sample(drawn: Sequence[Drawn]) -> list[Sampled]:
            nonlocal lost
            share = self._share(drawn)
            answered, completions = self.collector.sample(
                share, self.sampling, samples=self.group_size, stream=("train", step)
            )
            lost += len(share) - len(answered)
            graded = self.collector.grade(answered, completions)
            return list(zip(answered, graded, strict=True))

        metrics: dict[str, float] = {}
        if self.dynamic_sampling is None:
            first = step * self.problems_per_step
            groups = sample(self._train.draw(first, self.problems_per_step))
        else:
            filled = fill_step(
                self._train,
                self._position,
                wanted=self.problems_per_step,
                sample=sample,
                rule=self.dynamic_sampling,
            )
            self._position, metrics = filled.position, filled.metrics
            groups = self._share(filled.groups)
        metrics["train/prompts/dropped"] = float(sum(all_gather(lost)))
        return [drawn for drawn, _ in groups], [graded for _, graded in groups], metrics

    def _share(self, items: Sequence[Item]) -> list[Item]:
        return share_of(items, rank=self._trainer.global_rank, ranks=self._trainer.world_size)

    def _warn_of_missing_logprobs(self, fraction: float) -> None:
        if fraction > 0 and not self._warned:
            self._warned = True
            rank_zero_warn(
                f"{type(self.sampler).__name__} reported no log-prob for {fraction:.1%} of the "
                "step's tokens: how far it is from the policy cannot be seen there "
                "(train/sampler_gap/missing_fraction)"
            )

    def _rescore(self, rollouts: Rollouts) -> Rollouts:
        return self.collector.rescore(rollouts, self._host.policy)

    def _evaluation_loaders(self, sets: EvaluationSets) -> list[LazyLoader[list[Graded]]]:
        return [self._evaluation_loader(sets, name) for name in sets.sources]

    def _evaluation_loader(self, sets: EvaluationSets, name: str) -> LazyLoader[list[Graded]]:
        stream = self._evaluated[name]
        return self.collector.grading_loader(
            self._share([stream.drawn(index, index) for index in range(len(stream))]),
            sets.sampling,
            samples=sets.samples,
            stream=(sets.stream, name),
            batch=self.validation_batch,
            before=lambda: self.sampler.push_weights(self._host.policy, self._trainer.global_step),
        )

    @property
    def evaluation_sizes(self) -> dict[str, int]:
        """Usable problems of each set that this run evaluates on, by name."""
        return {name: len(stream) for name, stream in self._evaluated.items()}

    def _cut(self) -> Cut:
        return Cut.of_step(
            self.problems_per_step * self.group_size,
            passes=self.passes,
            micro_batches=self.micro_batches,
            accumulate=self._trainer.accumulate_grad_batches,
            ranks=Replica.of(self._trainer).count,
            max_tokens=self.max_tokens_per_micro_batch,
        )

    @property
    def seconds(self) -> dict[str, float]:
        """Time of the parts of the current RL step on this rank, in seconds."""
        return self.collector.seconds

    @property
    def _trainer(self) -> Trainer:
        assert self.trainer is not None
        return self.trainer

    @property
    def _host(self) -> PolicyHost:
        return cast(PolicyHost, self._trainer.lightning_module)

"""How a run's epochs are fed: one RL step each for training, whole sets for validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import torch
from lightning.pytorch import LightningDataModule, Trainer

from gtpo_lit.rollout.collector import Collector, credited
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.rollout.host import PolicyHost
from gtpo_lit.rollout.lazy_loader import LazyLoader
from gtpo_lit.rollout.metrics import step_metrics
from gtpo_lit.rollout.micro_batches import Cut
from gtpo_lit.rollout.problem_stream import ProblemStream, share_of
from gtpo_lit.rollout.reward_metrics import ConstantRewards, merged, report, reward_metrics
from gtpo_lit.rollout.scoring import score
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.types import Graded, Rollouts, SamplingSettings


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
    sampling: SamplingSettings
    validation_sampling: SamplingSettings
    validation_samples: int
    validation_batch: int
    validation_names: list[str]
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
        self._train: ProblemStream | None = None
        self._validation: dict[str, ProblemStream] = {}

    def train_dataloader(self) -> LazyLoader[Rollouts]:
        """The micro-batches of one RL step, collected when the first is asked for."""
        return LazyLoader(len(self._cut()), self._train_step)

    def val_dataloader(self) -> list[LazyLoader[list[Graded]]]:
        """One loader for each validation set; it yields this rank's graded problems."""
        return [self._validation_loader(name) for name in self.validation_names]

    def test_dataloader(self) -> list[LazyLoader[list[Graded]]]:
        """The validation sets again: what is a test set is a matter of the config."""
        return self.val_dataloader()

    def transfer_batch_to_device(
        self, batch: Any, device: torch.device, dataloader_idx: int
    ) -> Any:
        """Graded problems hold no tensors and stay as they are."""
        return batch.to(device) if isinstance(batch, Rollouts) else batch

    def _train_step(self) -> Iterator[Rollouts]:
        host, step, rank = self._host, self._trainer.current_epoch, self._trainer.global_rank
        assert self._train is not None
        self._in_flight = True
        self.collector.seconds = {}
        self.sampler.push_weights(host.policy, self._trainer.global_step)
        drawn = share_of(
            self._train.step(step, problems_per_step=self.problems_per_step, seed=self.seed),
            rank=rank,
            ranks=self._trainer.world_size,
        )
        self.graded = self.collector.grade(
            drawn, self.sampling, samples=self.group_size, stream=("train", step)
        )
        rollouts = self.collector.collect(
            drawn, self.graded, self.sampling, host.policy, host.reference
        )
        self.rollouts = credited(rollouts, host.algorithm)
        rewards = merged(all_gather(report(self.graded)))
        self.step_metrics = (
            step_metrics(self.rollouts, host.algorithm)
            | reward_metrics(rewards)
            | self.constant_rewards.update(rewards)
        )
        cut = self._cut()
        batches = cut.yield_for(rank, self.rollouts, host.algorithm, self._rescore)
        for number, batch in enumerate(batches, start=1):
            # Lightning stops asking after the last batch, so the flag falls before it is yielded.
            self._in_flight = number < len(cut)
            yield batch

    def _rescore(self, rollouts: Rollouts) -> Rollouts:
        rows = self.collector.rows_per_forward
        _, entropy = score(self._host.policy, rollouts, rows_per_forward=rows)
        return rollouts.replace(entropy=entropy)

    def _validation_loader(self, name: str) -> LazyLoader[list[Graded]]:
        stream = self._validation[name]
        return self.collector.grading_loader(
            share_of(
                [stream.drawn(index, index) for index in range(len(stream))],
                rank=self._trainer.global_rank,
                ranks=self._trainer.world_size,
            ),
            self.validation_sampling,
            samples=self.validation_samples,
            stream=("validation", name),
            batch=self.validation_batch,
            before=lambda: self.sampler.push_weights(self._host.policy, self._trainer.global_step),
        )

    def _cut(self) -> Cut:
        return Cut.of_step(
            self.problems_per_step * self.group_size,
            passes=self.passes,
            micro_batches=self.micro_batches,
            accumulate=self._trainer.accumulate_grad_batches,
            ranks=self._trainer.world_size,
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

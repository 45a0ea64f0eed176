"""The data side of a run: every epoch, rollouts sampled from the policy as it is then."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import torch
from lightning.pytorch import LightningDataModule, Trainer
from transformers import PreTrainedTokenizerBase

from gtpo_lit.rollout.collector import Collector, EntropySource, credited
from gtpo_lit.rollout.exchange import all_gather
from gtpo_lit.rollout.host import PolicyHost, refuse_changes
from gtpo_lit.rollout.lazy_loader import LazyLoader
from gtpo_lit.rollout.metrics import component_means, component_sums, step_metrics
from gtpo_lit.rollout.micro_batches import Cut
from gtpo_lit.rollout.problem_stream import (
    LongPrompts,
    ProblemStream,
    refuse_overlap,
    share_of,
)
from gtpo_lit.rollout.scoring import score
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.settings import check_training_settings
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.tasks import ProblemSource, PromptTemplate, WeightedReward
from gtpo_lit.types import Graded, Rollouts, SamplingSettings


class RolloutDataModule(LightningDataModule):
    """Feeds the trainer with groups of completions that the policy itself wrote.

    An epoch is one RL step: problems are drawn, completions sampled, scored and credited on whole
    groups, and yielded as micro-batches that carry their loss denominators.

    Attributes:
        rollouts: the current RL step's rollouts of all ranks, on the CPU.
        graded: the current RL step's graded completions of this rank.
        validation_names: the validation sets, in the order of their loaders.
        step_metrics: `train/...` numbers of the current RL step, equal on all ranks.
        seconds: time of the parts of the current RL step on this rank.

    Args:
        problems: what to train on.
        reward: how completions are scored; its accuracy term decides which are correct.
        validation: problem sets to evaluate on, by name.
        sampler: the engine; `TransformersSampler` if not given.
        prompt: how a problem becomes a prompt; its question alone if not given.
        group_size: completions of each problem (G), at least 2.
        problems_per_step: problems drawn in each RL step.
        micro_batches: micro-batches of one rank in one pass over a step's rollouts; the optimiser
            steps every `trainer.accumulate_grad_batches` of them.
        passes: how often a step's rollouts are trained on.
        sampling: how training completions are drawn.
        validation_sampling: how validation completions are drawn; as in training if not given.
        validation_samples: completions of each validation problem (n of pass@k).
        validation_batch: validation problems sampled at a time.
        max_prompt_length: longest prompt in tokens; no limit if not given.
        long_prompts: drop the problems whose prompt is longer (and say how many), or stop.
        max_tokens_per_micro_batch: stop if a micro-batch would hold more tokens than this,
            padding included; no limit if not given.
        entropy_source: entropies and old log-probs recomputed by the policy, or the sampler's.
        allow_biased_sampling: train on completions drawn with top-p, top-k or min-p although the
            importance ratio then compares different distributions.
        seed: names every random stream; the command line links it to `seed_everything`.
    """

    def __init__(
        self,
        problems: ProblemSource,
        reward: WeightedReward,
        validation: dict[str, ProblemSource] | None = None,
        sampler: Sampler | None = None,
        prompt: PromptTemplate | None = None,
        group_size: int = 8,
        problems_per_step: int = 16,
        micro_batches: int = 1,
        passes: int = 1,
        sampling: SamplingSettings = SamplingSettings(),  # noqa: B008 (frozen)
        validation_sampling: SamplingSettings | None = None,
        validation_samples: int = 8,
        validation_batch: int = 8,
        max_prompt_length: int | None = None,
        long_prompts: LongPrompts = "drop",
        max_tokens_per_micro_batch: int | None = None,
        entropy_source: EntropySource = "recompute",
        allow_biased_sampling: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__()
        for name, value, least in (
            ("group_size", group_size, 2),
            ("problems_per_step", problems_per_step, 1),
            ("micro_batches", micro_batches, 1),
            ("passes", passes, 1),
            ("validation_samples", validation_samples, 1),
            ("validation_batch", validation_batch, 1),
        ):
            if value < least:
                raise ValueError(f"data.{name} must be at least {least}, got {value}")
        check_training_settings(sampling, allow_biased_sampling=allow_biased_sampling)
        if max_prompt_length is not None and max_prompt_length < 1:
            raise ValueError(f"data.max_prompt_length must be at least 1, got {max_prompt_length}")
        self.problems = problems
        self.validation = validation or {}
        self.sampler = sampler or TransformersSampler()
        self.prompt = prompt or PromptTemplate()
        self.group_size = group_size
        self.problems_per_step = problems_per_step
        self.micro_batches = micro_batches
        self.passes = passes
        self.sampling = sampling
        self.validation_sampling = validation_sampling or sampling
        self.validation_samples = validation_samples
        self.validation_batch = validation_batch
        self.max_prompt_length = max_prompt_length
        self.long_prompts = long_prompts
        self.max_tokens_per_micro_batch = max_tokens_per_micro_batch
        self.seed = seed
        self.validation_names = list(self.validation)
        self.rollouts: Rollouts | None = None
        self.graded: list[Graded] = []
        self.step_metrics: dict[str, float] = {}
        self.collector = Collector(
            sampler=self.sampler,
            reward=reward,
            seed=seed,
            rows_per_forward=1,
            entropy_source=entropy_source,
        )
        self._in_flight = False
        self._train: ProblemStream | None = None
        self._validation: dict[str, ProblemStream] = {}

    def setup(self, stage: str) -> None:
        """Render every prompt and check every count, before any weights load.

        Raises:
            ValueError: for a tokenizer that cannot render the prompts, too few usable problems,
                counts that do not divide, or training problems that are validated on.
        """
        self._host.policy_spec.check()
        tokenizer = self._host.policy_spec.load_tokenizer()
        self.prompt.check(tokenizer)
        self.collector.rows_per_forward = self.group_size
        self._validation = {
            name: self._render(source, tokenizer, f"data.validation.{name}")
            for name, source in self.validation.items()
        }
        if stage != "fit":
            return
        cut = self._cut()
        self.collector.rows_per_forward = cut.rows
        refuse_overlap(self.problems, self.validation)
        self._train = self._render(self.problems, tokenizer, "data.problems")
        self._train.require(self.problems_per_step)

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

    def teardown(self, stage: str) -> None:
        """Give the engine's resources back at the end of a run."""
        self.sampler.close()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint says about the data: nothing else is needed to go on exactly."""
        return {"meaning": self._meaning(), "in_flight": self._in_flight}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to go on with data that would mean something else.

        Raises:
            ValueError: if the checkpoint was written inside an RL step, or under other settings
                that decide which completions are sampled.
        """
        if state_dict["in_flight"]:
            raise ValueError(
                "the checkpoint was written inside an RL step and its rollouts are gone; "
                "resume from one written at the end of a step"
            )
        refuse_changes("data", saved=state_dict["meaning"], now=self._meaning())

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
        self.step_metrics = step_metrics(self.rollouts, host.algorithm) | component_means(
            all_gather(component_sums(self.graded))
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
        drawn = share_of(
            [stream.drawn(index, index) for index in range(len(stream))],
            rank=self._trainer.global_rank,
            ranks=self._trainer.world_size,
        )

        def generate() -> Iterator[list[Graded]]:
            self.sampler.push_weights(self._host.policy, self._trainer.global_step)
            for start in range(0, len(drawn), self.validation_batch):
                yield self.collector.grade(
                    drawn[start : start + self.validation_batch],
                    self.validation_sampling,
                    samples=self.validation_samples,
                    stream=("validation", name),
                )

        return LazyLoader(-(-len(drawn) // self.validation_batch), generate)

    def _cut(self) -> Cut:
        return Cut.of_step(
            self.problems_per_step * self.group_size,
            passes=self.passes,
            micro_batches=self.micro_batches,
            accumulate=self._trainer.accumulate_grad_batches,
            ranks=self._trainer.world_size,
            max_tokens=self.max_tokens_per_micro_batch,
        )

    def _render(
        self, source: ProblemSource, tokenizer: PreTrainedTokenizerBase, option: str
    ) -> ProblemStream:
        return ProblemStream.render(
            source,
            lambda problem: self.prompt.render_ids(problem, tokenizer),
            max_prompt_length=self.max_prompt_length,
            long_prompts=self.long_prompts,
            option=option,
        )

    def _meaning(self) -> dict[str, Any]:
        sampling = dataclasses.asdict(self.sampling)
        return {
            "seed": self.seed,
            "group_size": self.group_size,
            "problems_per_step": self.problems_per_step,
            "passes": self.passes,
            "problems": self.problems.name,
            **{f"sampling.{name}": value for name, value in sampling.items()},
        }

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

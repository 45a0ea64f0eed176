"""One RL step's data: problems -> completions -> rewards -> scores -> credit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from lightning.pytorch import Trainer

from gtpo_lit.policy import CausalPolicy
from gtpo_lit.rollout.collate import collate
from gtpo_lit.rollout.correction import MismatchCorrection
from gtpo_lit.rollout.entropy_source import EntropySource, given_entropies
from gtpo_lit.rollout.exchange import gather_rollouts
from gtpo_lit.rollout.lazy_loader import LazyLoader
from gtpo_lit.rollout.replica import Replica
from gtpo_lit.rollout.scoring import Precision, score, score_logprobs
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.tasks import WeightedReward
from gtpo_lit.types import Completion, Graded, Problem, Rollouts, SampleRequest, SamplingSettings


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A problem drawn for a step, with the prompt that is sampled from and trained on."""

    problem: Problem
    prompt_ids: tuple[int, ...]
    place: int
    """Its position in the step (or in its validation set), whatever the rank."""


@dataclass(kw_only=True)
class Collector:
    """Collects and scores completions; holds no state but the time that each part took."""

    sampler: Sampler
    reward: WeightedReward
    seed: int
    rows_per_forward: int
    entropy_source: EntropySource = "recompute"
    correction: MismatchCorrection | None = None
    replica: Replica = Replica()
    """Which sequences this rank scores."""
    precision: Precision = nullcontext
    """What the policy's forwards run in."""
    seconds: dict[str, float] = field(default_factory=dict)

    def train_as(self, trainer: Trainer, *, rows_per_forward: int) -> None:
        """Score what is this rank's to score, in the precision that the trainer trains in."""
        self.rows_per_forward = rows_per_forward
        self.replica = Replica.of(trainer)
        self.precision = trainer.precision_plugin.forward_context

    def sample(
        self,
        drawn: Sequence[Drawn],
        settings: SamplingSettings,
        *,
        samples: int,
        stream: tuple[str | int, ...],
    ) -> tuple[list[Drawn], list[list[Completion]]]:
        """Sample `samples` completions of every problem drawn.

        Args:
            drawn: this rank's problems.
            settings: how to sample.
            samples: completions a problem.
            stream: what this draw is called, such as ``("train", step)``; with the seed, a
                problem's place and the sample's number it names each completion's random stream.

        Returns:
            The problems that the engine answered, and the completions of each of them.
        """
        requests = [
            SampleRequest(
                prompt_ids=item.prompt_ids,
                seeds=tuple(
                    stream_seed(self.seed, *stream, item.place, sample) for sample in range(samples)
                ),
            )
            for item in drawn
        ]
        with self.timed("sampling"):
            completions = self.sampler.generate(requests, settings)
        answered = [
            (item, row) for item, row in zip(drawn, completions, strict=True) if len(row) > 0
        ]
        return [item for item, _ in answered], [row for _, row in answered]

    def grade(
        self, drawn: Sequence[Drawn], completions: Sequence[Sequence[Completion]]
    ) -> list[Graded]:
        """Score the completions of every problem drawn."""
        counts = [len(row) for row in completions]
        with self.timed("reward"):
            scores = self.reward.grade(
                [completion.text for row in completions for completion in row],
                [
                    item.problem
                    for item, count in zip(drawn, counts, strict=True)
                    for _ in range(count)
                ],
            )
        graded = []
        ends = list(accumulate(counts))
        for item, row, end in zip(drawn, completions, ends, strict=True):
            part = slice(end - len(row), end)
            graded.append(
                Graded(
                    problem=item.problem,
                    completions=tuple(row),
                    reward=tuple(scores.total[part]),
                    correct=tuple(scores.correct[part]),
                    components={
                        name: tuple(values[part]) for name, values in scores.components.items()
                    },
                    incidents={name: flags[part] for name, flags in scores.incidents.items()},
                    answers=None if scores.answers is None else scores.answers[part],
                    prompt_ids=item.prompt_ids,
                )
            )
        return graded

    def grading_loader(
        self,
        drawn: Sequence[Drawn],
        settings: SamplingSettings,
        *,
        samples: int,
        stream: tuple[str | int, ...],
        batch: int,
        before: Callable[[], None],
    ) -> LazyLoader[list[Graded]]:
        """A loader that grades `batch` problems at a time; `before` runs when it is first read.

        It is never empty, since Lightning skips an empty loader, and `before` may be something that
        all ranks do together: where nothing was drawn it yields one empty list.
        """

        def generate() -> Iterator[list[Graded]]:
            before()
            if not drawn:
                yield []
            for start in range(0, len(drawn), batch):
                part = drawn[start : start + batch]
                yield self.grade(*self.sample(part, settings, samples=samples, stream=stream))
            self.sampler.rest()

        return LazyLoader(max(1, -(-len(drawn) // batch)), generate)

    def collect(
        self,
        drawn: Sequence[Drawn],
        graded: Sequence[Graded],
        settings: SamplingSettings,
        policy: CausalPolicy,
        reference: CausalPolicy | None,
    ) -> Rollouts:
        """Scored rollouts of all ranks from this rank's graded completions, on the CPU.

        Raises:
            ValueError: if an option needs what the sampler did not report, naming the option.
            RuntimeError: no rank has a completion.
        """
        own = None
        if graded:
            own = collate(
                graded,
                [item.prompt_ids for item in drawn],
                [item.place for item in drawn],
                temperature=settings.temperature,
            )
            if self.entropy_source != "recompute":
                entropy = given_entropies(self.entropy_source, own, graded, self.sampler)
                own = own.replace(entropy=entropy)
        rollouts = gather_rollouts(own)
        with self.timed("scoring"):
            rollouts = self._score(rollouts, policy, reference)
        return self._corrected(rollouts)

    def _corrected(self, rollouts: Rollouts) -> Rollouts:
        # Whether log-probs came is known for all ranks together, so that all of them stop or none.
        if self.correction is None:
            return rollouts
        if rollouts.logp_sampler is None:
            raise ValueError(
                "data.correction needs the log-probs of the sampled tokens, and "
                f"{type(self.sampler).__name__} reported none; leave data.correction out, or let "
                "the sampler report them"
            )
        return rollouts.replace(correction=self.correction.weights(rollouts))

    def _score(
        self, rollouts: Rollouts, policy: CausalPolicy, reference: CausalPolicy | None
    ) -> Rollouts:
        how = self._how()
        if self.entropy_source == "recompute":
            logp, entropy = score(policy, rollouts, **how)
            rollouts = rollouts.replace(entropy=entropy)
        else:
            logp = score_logprobs(policy, rollouts, **how)
        if reference is not None:
            rollouts = rollouts.replace(logp_ref=score_logprobs(reference, rollouts, **how))
        return rollouts.replace(logp_old=logp)

    def rescore(self, rollouts: Rollouts, policy: CausalPolicy) -> Rollouts:
        """Rollouts of all ranks with the entropies of the policy as it is now."""
        _, entropy = score(policy, rollouts, **self._how())
        return rollouts.replace(entropy=entropy)

    def _how(self) -> dict[str, Any]:
        return {
            "rows_per_forward": self.rows_per_forward,
            "replica": self.replica,
            "precision": self.precision,
        }

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to `seconds` under `name`."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

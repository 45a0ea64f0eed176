"""One RL step's data: problems -> completions -> rewards -> scores -> credit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.rollout.collate import collate, engine_entropy
from gtpo_lit.rollout.exchange import gather_rollouts
from gtpo_lit.rollout.lazy_loader import LazyLoader
from gtpo_lit.rollout.scoring import score
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.streams import stream_seed
from gtpo_lit.tasks import WeightedReward
from gtpo_lit.types import Graded, Problem, Rollouts, SampleRequest, SamplingSettings

EntropySource = Literal["recompute", "sampler"]


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
    seconds: dict[str, float] = field(default_factory=dict)

    def grade(
        self,
        drawn: Sequence[Drawn],
        settings: SamplingSettings,
        *,
        samples: int,
        stream: tuple[str | int, ...],
    ) -> list[Graded]:
        """Sample and score `samples` completions of every problem drawn.

        Args:
            drawn: this rank's problems.
            settings: how to sample.
            samples: completions a problem.
            stream: what this draw is called, such as ``("train", step)``; with the seed, a
                problem's place and the sample's number it names each completion's random stream.
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
        with self._timed("sampling"):
            completions = self.sampler.generate(requests, settings)
        with self._timed("reward"):
            scores = self.reward.grade(
                [completion.text for row in completions for completion in row],
                [item.problem for item in drawn for _ in range(samples)],
            )
        graded = []
        for index, (item, row) in enumerate(zip(drawn, completions, strict=True)):
            part = slice(index * samples, (index + 1) * samples)
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
        """A loader that grades `batch` problems at a time; `before` runs when it is first read."""

        def generate() -> Iterator[list[Graded]]:
            before()
            for start in range(0, len(drawn), batch):
                part = drawn[start : start + batch]
                yield self.grade(part, settings, samples=samples, stream=stream)

        return LazyLoader(-(-len(drawn) // batch), generate)

    def collect(
        self,
        drawn: Sequence[Drawn],
        graded: Sequence[Graded],
        settings: SamplingSettings,
        policy: CausalPolicy,
        reference: CausalPolicy | None,
    ) -> Rollouts:
        """Scored rollouts of all ranks from this rank's graded completions, on the CPU."""
        rollouts = collate(
            graded,
            [item.prompt_ids for item in drawn],
            [item.place for item in drawn],
            temperature=settings.temperature,
        )
        with self._timed("scoring"):
            rollouts = self._score(rollouts, graded, policy)
            if reference is not None:
                logp_ref, _ = score(reference, rollouts, rows_per_forward=self.rows_per_forward)
                rollouts = rollouts.replace(logp_ref=logp_ref)
        return gather_rollouts(rollouts)

    def _score(
        self, rollouts: Rollouts, graded: Sequence[Graded], policy: CausalPolicy
    ) -> Rollouts:
        if self.entropy_source == "sampler":
            entropy = engine_entropy(graded, rollouts.mask.shape[1])
            if entropy is None or rollouts.logp_sampler is None:
                raise ValueError(
                    "data.entropy_source: 'sampler' needs a sampler that reports log-probs and "
                    f"entropies; {type(self.sampler).__name__} does not"
                )
            return rollouts.replace(logp_old=rollouts.logp_sampler, entropy=entropy)
        logp, entropy = score(policy, rollouts, rows_per_forward=self.rows_per_forward)
        return rollouts.replace(logp_old=logp, entropy=entropy)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def credited(rollouts: Rollouts, algorithm: Algorithm) -> Rollouts:
    """The step's rollouts with advantages, computed on whole groups before any split."""
    return rollouts.replace(advantages=algorithm.advantages(rollouts))

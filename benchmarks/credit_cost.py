"""What GTPO and GRPO-S cost over a DAPO that computes no entropy, on the same rollouts.

    python -m benchmarks.credit_cost --policy models/smollm2

One set of rollouts is sampled; then each round does the whole work of an RL step after sampling
once under each variant: old log-probs, entropies, credit, diagnostics, forward, backward,
optimiser step. Costs are ratios within a round, so that a machine that slows down for a while
slows all variants. All measurements go into a CSV, their medians and quartiles to the screen.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from benchmarks.paired import Measurement, table
from gtpo_lit.algorithms import DAPO, GRPOS, GTPO, Algorithm
from gtpo_lit.policy import CausalPolicy, PolicySpec
from gtpo_lit.rollout.collector import Collector, Drawn
from gtpo_lit.rollout.entropy_source import EntropySource
from gtpo_lit.rollout.metrics import step_metrics
from gtpo_lit.rollout.micro_batches import Cut
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.tasks import ChainSource, ExactReward, WeightedReward
from gtpo_lit.types import Graded, Rollouts, SamplingSettings

Work = Mapping[str, Callable[[], object]]

# The first one is what the others are compared with.
VARIANTS: dict[str, tuple[Algorithm, EntropySource]] = {
    "DAPO, no entropies": (DAPO(), "none"),
    "GTPO, recomputed": (GTPO(), "recompute"),
    "GRPO-S, recomputed": (GRPOS(), "recompute"),
    "GTPO, of the sampler": (GTPO(), "sampler"),
    "GRPO-S, of the sampler": (GRPOS(), "sampler"),
}


@dataclass(kw_only=True)
class Bench:
    """One policy, its optimiser and one set of graded completions."""

    policy: CausalPolicy
    settings: SamplingSettings
    drawn: Sequence[Drawn]
    group_size: int
    micro_batches: int

    def __post_init__(self) -> None:
        """Sample once. The learning rate is 0: every step does the very same work."""
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=0.0)
        self.rows = len(self.drawn) * self.group_size // self.micro_batches
        self.graded = [_half_right(item) for item in self.sample(with_entropy=True)]

    def sample(self, *, with_entropy: bool) -> list[Graded]:
        """All completions, drawn anew from the same random streams."""
        sampler = TransformersSampler(requests_per_batch=len(self.drawn))
        sampler.push_weights(self.policy, 0)
        if with_entropy:
            sampler.ask_for_entropies()
        collector = self._collector("none", sampler)
        answered, completions = collector.sample(
            self.drawn, self.settings, samples=self.group_size, stream=("train", 0)
        )
        return collector.grade(answered, completions)

    def scored(self, source: EntropySource) -> Rollouts:
        """Rollouts with old log-probs, and entropies from `source`."""
        collector = self._collector(source, TransformersSampler())
        return collector.collect(self.drawn, self.graded, self.settings, self.policy, None)

    def step(self, algorithm: Algorithm, source: EntropySource) -> None:
        """All that one RL step does after sampling."""
        rollouts = credit(self.scored(source), algorithm)
        cut = Cut(
            passes=1, mini_batches=1, micro_batches=self.micro_batches, ranks=1, rows=self.rows
        )
        for batch in cut.yield_for(0, rollouts, algorithm, lambda unchanged: unchanged):
            logp, entropy = self.policy(
                batch.input_ids,
                batch.attention_mask,
                batch.mask.shape[1],
                temperature=batch.temperature,
                with_entropy=algorithm.needs_current_entropy,
            )
            algorithm.loss(logp, entropy, batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _collector(self, source: EntropySource, sampler: TransformersSampler) -> Collector:
        return Collector(
            sampler=sampler,
            reward=WeightedReward(accuracy=ExactReward()),
            seed=0,
            rows_per_forward=self.rows,
            entropy_source=source,
        )


def credit(rollouts: Rollouts, algorithm: Algorithm) -> Rollouts:
    """Rollouts with advantages; the step's diagnostics are computed beside them."""
    step_metrics(rollouts, algorithm)
    return rollouts.replace(advantages=algorithm.advantages(rollouts))


def measure(bench: Bench, *, pairs: int, sampling_pairs: int) -> Iterator[Measurement]:
    """Every measurement as it is made; round 0 warms up and is not among them."""
    steps: Work = {name: partial(bench.step, *variant) for name, variant in VARIANTS.items()}
    yield from _rounds("step", steps, pairs)
    rollouts = bench.scored("recompute")
    credits: Work = {
        name: partial(credit, rollouts, algorithm)
        for name, algorithm in (("DAPO", DAPO()), ("GTPO", GTPO()), ("GRPO-S", GRPOS()))
    }
    yield from _rounds("credit alone", credits, pairs)
    samplings: Work = {
        name: partial(bench.sample, with_entropy=wanted)
        for name, wanted in (("log-probs alone", False), ("and entropies", True))
    }
    yield from _rounds("sampling", samplings, sampling_pairs)


def _rounds(part: str, work: Work, pairs: int) -> Iterator[Measurement]:
    names = list(work)
    for number in range(pairs + 1 if pairs else 0):
        # Each variant has each place in turn; round 1 begins with the first, the baseline.
        first = (number - 1) % len(names)
        for name in names[first:] + names[:first]:
            start, start_cpu = time.perf_counter(), time.process_time()
            work[name]()
            seconds, cpu = time.perf_counter() - start, time.process_time() - start_cpu
            if number > 0:
                yield Measurement(part, number, name, seconds, cpu)
        print(f"{part}: round {number} of {pairs}", file=sys.stderr, flush=True)


def _half_right(graded: Graded) -> Graded:
    """The same completions with every other one right: a group with something to shape."""
    correct = tuple(place % 2 == 0 for place in range(len(graded.completions)))
    return Graded(
        problem=graded.problem,
        completions=graded.completions,
        reward=tuple(map(float, correct)),
        correct=correct,
    )


def make_bench(options: argparse.Namespace) -> Bench:
    """The policy of the options, and completions that it wrote."""
    policy = PolicySpec(path=options.policy, chunk_size=options.chunk_size).load()
    source = ChainSource(split="train", size=options.problems)
    drawn = [
        Drawn(
            problem=source.problem(place),
            prompt_ids=tuple(policy.tokenizer(source.problem(place).question).input_ids),
            place=place,
        )
        for place in range(options.problems)
    ]
    return Bench(
        policy=policy,
        settings=SamplingSettings(max_tokens=options.tokens),
        drawn=drawn,
        group_size=options.group_size,
        micro_batches=options.micro_batches,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, write the CSV and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="models/smollm2", help="folder, or embedded:<name>")
    parser.add_argument("--problems", type=int, default=2)
    parser.add_argument("--group_size", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=16, help="longest response")
    parser.add_argument("--micro_batches", type=int, default=2)
    parser.add_argument("--chunk_size", type=int, default=256, help="rows of the head at a time")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--sampling_pairs", type=int, default=3)
    parser.add_argument("--core", type=int, default=0, help="the one core to run on")
    parser.add_argument("--output", type=Path, default=Path("credit_cost.csv"))
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {options.core})
    load = os.getloadavg()[0]
    bench = make_bench(options)
    lengths = [len(one.token_ids) for item in bench.graded for one in item.completions]
    print(
        f"{options.policy}, {len(lengths)} sequences, {sum(lengths)} response tokens, torch "
        f"{torch.__version__}, 1 thread on core {options.core}, load {load:.2f} at the start"
    )
    found = []
    with options.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Measurement._fields)
        for one in measure(bench, pairs=options.pairs, sampling_pairs=options.sampling_pairs):
            found.append(one)
            writer.writerow(one)
            file.flush()
    print(table(found))
    share = sum(one.cpu_seconds for one in found) / sum(one.seconds for one in found)
    print(f"The process had its core for {share:.1%} of the time that it measured.")


if __name__ == "__main__":
    main()

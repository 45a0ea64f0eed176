"""The data side of a run: every epoch, rollouts sampled from the policy as it is then."""

from __future__ import annotations

import dataclasses
from typing import Any

from transformers import PreTrainedTokenizerBase

from gtpo_lit.rollout.collector import Collector
from gtpo_lit.rollout.correction import MismatchCorrection, check_correction
from gtpo_lit.rollout.dynamic_sampling import DynamicSampling
from gtpo_lit.rollout.entropy_source import EntropySource, prepare_entropies
from gtpo_lit.rollout.evaluation_sets import EvaluationSets, sets_for_test
from gtpo_lit.rollout.feed import RolloutFeed
from gtpo_lit.rollout.host import check_counts, refuse_changes
from gtpo_lit.rollout.length_penalty import LengthPenalty
from gtpo_lit.rollout.problem_stream import ProblemStream, refuse_overlap
from gtpo_lit.rollout.reward_metrics import ConstantRewards
from gtpo_lit.sampling.sampler import Sampler
from gtpo_lit.sampling.settings import check_training_settings
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.tasks import (
    LongPrompts,
    ProblemSource,
    PromptTemplate,
    RewardTerm,
    WeightedReward,
    chosen_reward,
)
from gtpo_lit.types import SamplingSettings


class RolloutDataModule(RolloutFeed):
    """Feeds the trainer with groups of completions that the policy itself wrote.

    An epoch is one RL step: problems are drawn, completions sampled, scored and credited on whole
    groups, and yielded as micro-batches that carry their loss denominators.

    Attributes:
        rollouts: the current RL step's rollouts of all ranks, on the CPU.
        graded: the current RL step's graded completions of this rank.
        validation_names: the validation sets, in the order of their loaders.
        test_names: the same for `test`.
        evaluation_sizes: usable problems of the sets that this run evaluates on.
        step_metrics: `train/...` numbers of the current RL step, equal on all ranks.
        seconds: time of the parts of the current RL step on this rank.

    Args:
        problems: what to train on.
        reward: how completions are scored; its accuracy term decides which are correct.
        rewards: the same as a list of rewards with weights, of which one has `accuracy: true`.
            Either this or `reward` must be given.
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
        validation_batch: validation or test problems sampled at a time.
        test: problem sets for `test`, by name; the validation sets if not given.
        test_sampling: how completions are drawn in `test`; as in validation if not given.
        test_samples: completions of each problem in `test`; as in validation if not given.
        max_prompt_length: longest prompt in tokens; no limit if not given.
        long_prompts: drop the problems whose prompt is longer (and say how many), stop, or cut
            the middle out of their questions.
        max_tokens_per_micro_batch: stop if a micro-batch would hold more tokens than this,
            padding included; no limit if not given.
        dynamic_sampling: draw problems until the step is full of groups with both outcomes; off if
            not given.
        length_penalties: added to the reward after any shaping, on both sides.
        overlong_filter: no gradient for responses that the token limit cut.
        entropy_source: entropies of the sampling policy: recomputed with the old log-probs, the
            sampler's, or none (then there is no entropy curve). Log-probs are always recomputed.
        correction: weights of the token losses that make up for a sampler whose log-probs are not
            the policy's; off if not given.
        allow_biased_sampling: train on completions drawn with top-p, top-k or min-p although the
            importance ratio then compares different distributions.
        constant_reward_steps: warn, once, if a reward gives every completion the same score for
            this many RL steps.
        seed: names every random stream; the command line links it to `seed_everything`.
    """

    def __init__(
        self,
        problems: ProblemSource,
        reward: WeightedReward | None = None,
        rewards: list[RewardTerm] | None = None,
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
        test: dict[str, ProblemSource] | None = None,
        test_sampling: SamplingSettings | None = None,
        test_samples: int | None = None,
        max_prompt_length: int | None = None,
        long_prompts: LongPrompts = "drop",
        max_tokens_per_micro_batch: int | None = None,
        dynamic_sampling: DynamicSampling | None = None,
        length_penalties: list[LengthPenalty] | None = None,
        overlong_filter: bool = False,
        entropy_source: EntropySource = "recompute",
        correction: MismatchCorrection | None = None,
        allow_biased_sampling: bool = False,
        constant_reward_steps: int = 20,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_counts(
            group_size=(group_size, 2),
            problems_per_step=(problems_per_step, 1),
            micro_batches=(micro_batches, 1),
            passes=(passes, 1),
            validation_samples=(validation_samples, 1),
            validation_batch=(validation_batch, 1),
            test_samples=(test_samples, 1),
            max_prompt_length=(max_prompt_length, 1),
            max_tokens_per_micro_batch=(max_tokens_per_micro_batch, 1),
            constant_reward_steps=(constant_reward_steps, 1),
        )
        check_training_settings(sampling, allow_biased_sampling=allow_biased_sampling)
        self.problems = problems
        self.sampler = sampler or TransformersSampler()
        check_correction(correction, self.sampler)
        self.prompt = prompt or PromptTemplate()
        self.group_size = group_size
        self.problems_per_step = problems_per_step
        self.micro_batches = micro_batches
        self.passes = passes
        self.sampling = sampling
        self.validation, self.test = validation or {}, test or {}
        self.validation_sets = EvaluationSets(
            option="data.validation",
            sources=self.validation,
            sampling=validation_sampling or sampling,
            samples=validation_samples,
            stream="validation",
        )
        self.test_sets = sets_for_test(
            self.test, self.validation_sets, sampling=test_sampling, samples=test_samples
        )
        self.validation_batch = validation_batch
        self.max_prompt_length = max_prompt_length
        self.long_prompts = long_prompts
        self.max_tokens_per_micro_batch = max_tokens_per_micro_batch
        self.dynamic_sampling = dynamic_sampling
        self.length_penalties = tuple(length_penalties or ())
        for penalty in self.length_penalties:
            penalty.check(sampling.max_tokens)
        self.overlong_filter = overlong_filter
        self.seed = seed
        self.validation_names = list(self.validation_sets.sources)
        self.test_names = list(self.test_sets.sources)
        self.constant_rewards = ConstantRewards(constant_reward_steps)
        self.collector = Collector(
            sampler=self.sampler,
            reward=chosen_reward(reward, rewards),
            seed=seed,
            rows_per_forward=1,
            entropy_source=entropy_source,
            correction=correction,
        )

    def setup(self, stage: str) -> None:
        """Render every prompt and check every count, before any weights load.

        Raises:
            ValueError: for a tokenizer that cannot render the prompts, too few usable problems,
                counts that do not divide, or training problems that are validated on.
        """
        self._host.policy_spec.check()
        sets = self.test_sets if stage == "test" else self.validation_sets
        sets.require(stage)
        self.sampler.check(self._host.policy_spec, (self.sampling, sets.sampling))
        tokenizer = self._host.policy_spec.load_tokenizer()
        self.prompt.check(tokenizer)
        self.collector.train_as(self._trainer, rows_per_forward=self.group_size)
        self._evaluated = {
            name: self._render(source, tokenizer, f"{sets.option}.{name}")
            for name, source in sets.sources.items()
        }
        if stage != "fit":
            return
        prepare_entropies(self.collector.entropy_source, self.sampler, self._host.algorithm)
        cut = self._cut()
        self.collector.rows_per_forward = cut.rows
        refuse_overlap(self.problems, self.validation)
        refuse_overlap(self.problems, self.test, option="data.test")
        self._train = self._render(self.problems, tokenizer, "data.problems")
        self._train.require(self.problems_per_step)

    def teardown(self, stage: str) -> None:
        """Give the engine's resources back at the end of a run."""
        self.sampler.close()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint says about the data: nothing else is needed to go on exactly."""
        return {
            "meaning": self._meaning(),
            "in_flight": self._in_flight,
            "position": self._position,
            "constant_rewards": self.constant_rewards.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Refuse to go on with data that would mean something else.

        Raises:
            ValueError: if the checkpoint was written inside an RL step, or under other settings
                that decide which completions are sampled.
        """
        if state_dict["in_flight"]:
            inside = "the checkpoint was written inside an RL step and its rollouts are gone"
            raise ValueError(f"{inside}; resume from one written at the end of a step")
        refuse_changes("data", saved=state_dict["meaning"], now=self._meaning())
        self._position = state_dict["position"]
        self.constant_rewards.load_state_dict(state_dict["constant_rewards"])

    def _render(
        self, source: ProblemSource, tokenizer: PreTrainedTokenizerBase, option: str
    ) -> ProblemStream:
        longest, limit = self.max_prompt_length, "data.max_prompt_length"
        room = self.sampler.longest_prompt(self._host.policy_spec)
        if room is not None and (longest is None or room < longest):
            longest, limit = room, "the sampling engine's limit"
        return ProblemStream.render(
            source,
            lambda problem: self.prompt.render_ids(problem, tokenizer),
            max_prompt_length=longest,
            long_prompts=self.long_prompts,
            option=option,
            seed=self.seed,
            limit=limit,
            cut_ids=lambda problem, most: self.prompt.cut_ids(problem, tokenizer, most),
        )

    def _meaning(self) -> dict[str, Any]:
        sampling, dynamic = dataclasses.asdict(self.sampling), self.dynamic_sampling
        return {
            "seed": self.seed,
            "group_size": self.group_size,
            "problems_per_step": self.problems_per_step,
            "passes": self.passes,
            "problems": self.problems.name,
            "dynamic_sampling": dynamic and dataclasses.asdict(dynamic),
            **{f"sampling.{name}": value for name, value in sampling.items()},
        }

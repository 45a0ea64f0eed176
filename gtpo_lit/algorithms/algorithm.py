"""What every algorithm is: credit, a ratio level, clip bounds and an aggregation."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, ClassVar, get_args

from torch import Tensor

from gtpo_lit.functional.advantages import mixed_groups
from gtpo_lit.functional.masked import group_index, segment_moments
from gtpo_lit.functional.noise import row_hash
from gtpo_lit.functional.surrogate import (
    Aggregate,
    Ratio,
    SequenceRatio,
    aggregate_tokens,
    count_units,
    policy_loss,
)
from gtpo_lit.types import LossOutput, Rollouts

# Weights and bounds beyond this only overflow float32 later, where nobody names them.
LARGEST_OPTION = 1e6


class Algorithm(ABC):
    """Base class. A new idea overrides `advantages`, and sets class attributes if it must.

    Attributes:
        ratio: level of the importance ratio.
        aggregate: how token losses become one number.
        selects_by_current_entropy: `select` reads entropies of the current policy, which the
            caller then refreshes before each mini-batch.
        uses_entropy: credit or its diagnostics read the entropies of the sampling policy; false
            where a run may leave them out (``data.entropy_source: none``).

    Args:
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: bound on the loss of negative advantages, in advantages; off if not given.
        entropy_bonus: weight of the current policy's entropy, subtracted from the loss: the rival,
            fixed use of entropy.
    """

    ratio: Ratio = "token"
    aggregate: ClassVar[Aggregate] = "token_mean"
    selects_by_current_entropy: ClassVar[bool] = False
    uses_entropy: ClassVar[bool] = True
    max_length: int | None = None

    def __init__(
        self,
        clip_low: float = 0.2,
        clip_high: float = 0.28,
        dual_clip: float | None = None,
        entropy_bonus: float = 0.0,
    ) -> None:
        if not 0 < clip_low <= 1:
            raise ValueError(f"algorithm.clip_low must be in (0, 1], got {clip_low}")
        if not clip_high > 0:
            raise ValueError(f"algorithm.clip_high must be positive, got {clip_high}")
        if dual_clip is not None and not dual_clip > 1:
            raise ValueError(f"algorithm.dual_clip must be above 1 or null, got {dual_clip}")
        if not 0 <= entropy_bonus <= LARGEST_OPTION:
            raise ValueError(
                f"algorithm.entropy_bonus must be at least 0 and finite, got {entropy_bonus}"
            )
        self.clip_low = clip_low
        self.clip_high = clip_high
        self.dual_clip = dual_clip
        self.entropy_bonus = entropy_bonus

    @property
    def needs_current_entropy(self) -> bool:
        """Whether `loss` reads the current policy's entropies, which then have to be computed.

        True with an entropy bonus. An overridden `loss` is taken to read them, unless its class
        overrides this property too.
        """
        return self.entropy_bonus > 0 or type(self).loss is not Algorithm.loss

    @abstractmethod
    def advantages(self, rollouts: Rollouts) -> Tensor:
        """Credit for whole groups: [B], or [B, T] with zeros where `rollouts.mask` is false."""

    def shaped(self, rollouts: Rollouts) -> Tensor | None:
        """[B] or [B, T] rewards after dynamic entropy weighting, before penalties and z-scores.

        None where the algorithm does not shape; nothing but records of a run reads it.
        """
        return None

    @property
    def settings(self) -> dict[str, Any]:
        """The options of the constructor, by name, as far as the object keeps them.

        Example:
            >>> from gtpo_lit.algorithms import DAPO
            >>> DAPO(clip_high=0.3).settings
            {'clip_low': 0.2, 'clip_high': 0.3, 'dual_clip': 10.0, 'entropy_bonus': 0.0}
        """
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def diagnostics(self, rollouts: Rollouts) -> dict[str, float]:
        """Numbers about the credit of a whole step, logged as `train/<name>`."""
        return group_diagnostics(rollouts)

    def select(self, rollouts: Rollouts) -> Tensor:
        """[B, T] bool: the loss mask of a whole mini-batch, all ranks together."""
        return rollouts.loss_mask

    def denominator(self, rollouts: Rollouts, selected: Tensor) -> Tensor:
        """[] What the mini-batch's loss is divided by.

        Args:
            rollouts: the whole mini-batch, its loss mask as it was before `select`.
            selected: [B, T] bool, what `select` gave.
        """
        return count_units(selected, self.aggregate)

    def loss(self, logp: Tensor, entropy: Tensor | None, batch: Rollouts) -> LossOutput:
        """The clipped surrogate of one micro-batch.

        An own loss must multiply its token losses by `batch.correction` where there is one, as
        `policy_loss` does, and pass on the metric that says so; the module stops if it does not.

        Args:
            logp: [B, T] log-probs under the current policy, with gradient.
            entropy: [B, T] its full-vocabulary entropies, with gradient; None is enough where
                `needs_current_entropy` is false.
            batch: the micro-batch, with advantages and denominator.
        """
        assert batch.advantages is not None
        loss, metrics = policy_loss(
            logp,
            batch.logp_old,
            batch.advantages,
            batch.loss_mask,
            clip_low=self.clip_low,
            clip_high=self.clip_high,
            dual_clip=self.dual_clip,
            ratio=self.ratio,
            aggregate=self.aggregate,
            max_length=self.max_length,
            denominator=batch.denominator,
            correction=batch.correction,
        )
        if self.entropy_bonus > 0:
            assert entropy is not None
            loss = loss - self.entropy_bonus * aggregate_tokens(
                entropy,
                batch.loss_mask,
                self.aggregate,
                max_length=self.max_length,
                denominator=batch.denominator,
            )
        return LossOutput(loss=loss, metrics=metrics)


def sequence_ratio_level(mean: SequenceRatio) -> Ratio:
    """The ratio level of a sequence's arithmetic or geometric mean of token ratios.

    Raises:
        ValueError: for another mean, naming the option.
    """
    if mean not in get_args(SequenceRatio):
        raise ValueError(
            f"algorithm.sequence_ratio must be one of {get_args(SequenceRatio)}, got {mean!r}"
        )
    return "sequence_arithmetic" if mean == "arithmetic" else "sequence_geometric"


def penalised_reward(rollouts: Rollouts) -> Tensor:
    """[B] float32: the total reward with its length penalty."""
    return rollouts.reward if rollouts.penalty is None else rollouts.reward + rollouts.penalty


def group_diagnostics(rollouts: Rollouts) -> dict[str, float]:
    """Shares of groups without a signal: equal rewards, all correct, all wrong.

    Sequences without a token, and groups of none but these, count nowhere.
    """
    index, count = group_index(rollouts.group)
    alive = rollouts.mask.any(dim=1)
    size, rate, _ = segment_moments(rollouts.correct, index, count, keep=alive)
    _, _, spread = segment_moments(penalised_reward(rollouts), index, count, keep=alive)
    groups = int((size > 0).sum())
    mixed = mixed_groups(rollouts.correct, rollouts.group, alive) & alive
    return {
        "groups/zero_variance_fraction": int(((spread == 0) & (size > 0)).sum()) / max(1, groups),
        "groups/all_correct_fraction": int((rate == 1).sum()) / max(1, groups),
        "groups/all_wrong_fraction": int(((rate == 0) & (size > 0)).sum()) / max(1, groups),
        "groups/mixed_sequences_fraction": int(mixed.sum()) / max(1, int(alive.sum())),
    }


def content_seed(rollouts: Rollouts) -> Tensor:
    """[B] int64: a seed for each row, a function of its tokens alone.

    So it is the same on every rank and after a resume, and does not change with padding or order.
    """
    return row_hash(rollouts.input_ids, rollouts.attention_mask)

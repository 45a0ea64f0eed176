"""The LightningModule: a policy, its reference, and one algorithm that it never asks after."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor

from gtpo_lit.algorithms.algorithm import Algorithm
from gtpo_lit.functional.surrogate import (
    CORRECTION_METRIC,
    KLKind,
    aggregate_tokens,
    kl_estimate,
)
from gtpo_lit.meters import Meters
from gtpo_lit.policy import CausalPolicy
from gtpo_lit.policy_base import BasePolicy, refuse_other_base
from gtpo_lit.policy_identity import architecture
from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.rollout.host import StepSource, refuse_changes
from gtpo_lit.rollout.replica import Replica
from gtpo_lit.schedule import Schedule
from gtpo_lit.sharding import clip_gradients, gradient_norm, is_sharded
from gtpo_lit.strategy import FSDP1Strategy, ShardedStrategy, refuse_unfit
from gtpo_lit.types import Graded, Rollouts


class NonFiniteError(RuntimeError):
    """The loss or the gradient became NaN or infinite; every rank raises it."""


class PolicyModule(LightningModule):
    """Trains a policy on rollouts that come with their credit.

    Args:
        algorithm: credit, ratio level, clip bounds and aggregation.
        policy: which causal language model to train; it loads when the run starts.
        optimizer: from YAML by `class_path`.
        schedule: of the learning rate, in optimiser steps.
        kl_weight: weight of the KL term to the initial policy; 0 loads no reference.
        kl_kind: which estimator of that KL; its gradient is the named expression's.
        kl_straight_through: use k2's gradient with the named estimator's value.
    """

    policy: CausalPolicy

    def __init__(
        self,
        algorithm: Algorithm,
        policy: PolicySpec = PolicySpec(),  # noqa: B008 (frozen)
        optimizer: OptimizerCallable = lambda parameters: torch.optim.AdamW(parameters, lr=1e-6),
        schedule: Schedule = Schedule(),  # noqa: B008 (frozen)
        kl_weight: float = 0.0,
        kl_kind: KLKind = "k3",
        kl_straight_through: bool = False,
    ) -> None:
        super().__init__()
        if not 0 <= kl_weight < float("inf"):
            raise ValueError(f"model.kl_weight must be at least 0 and finite, got {kl_weight}")
        self.algorithm = algorithm
        self.policy_spec = policy
        self.optimizer = optimizer
        self.schedule = schedule
        self.kl_weight = kl_weight
        self.kl_kind = kl_kind
        self.kl_straight_through = kl_straight_through
        self.meters = Meters()
        self._denominator: Tensor | None = None
        # Kept out of the module tree: checkpoints and optimisers never see the reference.
        self._reference: list[CausalPolicy] = []
        self._reference_fingerprint: str | None = None
        self._base: list[BasePolicy] = []

    @property
    def reference(self) -> CausalPolicy | None:
        """The policy with its initial weights, frozen; nothing where `kl_weight` is 0."""
        return self._reference[0] if self._reference else None

    def configure_model(self) -> None:
        """Load the policy, and the reference if the loss needs one. Safe to call twice.

        Raises:
            ValueError: the strategy cannot train a policy, or the policy does not load.
        """
        if "policy" in self._modules:
            return
        self.policy = self._load()
        if self.policy_spec.lora is not None:
            self._base = [BasePolicy(self.policy)]
        if self.kl_weight > 0 and self.trainer.state.fn == "fit":
            self._reference = [*self._base] or [self._load().requires_grad_(False).eval()]
            self._reference_fingerprint = self._reference[0].fingerprint()

    def _load(self) -> CausalPolicy:
        strategy = self.trainer.strategy
        refuse_unfit(strategy)
        if isinstance(strategy, ShardedStrategy | FSDP1Strategy):
            return strategy.load_policy(self.policy_spec)
        return self.policy_spec.load()

    def training_step(self, batch: Rollouts, batch_idx: int) -> Tensor:
        """The loss of one micro-batch, as its part of the mini-batch's loss over all ranks."""
        logp, entropy = self.policy(
            batch.input_ids,
            batch.attention_mask,
            batch.mask.shape[1],
            temperature=batch.temperature,
            with_entropy=self.algorithm.needs_current_entropy,
        )
        self._denominator = batch.denominator
        output = self.algorithm.loss(logp, entropy, batch)
        if batch.correction is not None and CORRECTION_METRIC not in output.metrics:
            raise ValueError(
                f"data.correction is on, but {type(self.algorithm).__name__}.loss leaves "
                "batch.correction out: pass it to policy_loss, and its metrics on"
            )
        loss = output.loss + self._kl_term(logp, batch)
        self.meters.update(output.metrics, weight=batch.loss_mask.sum(), loss=loss.detach())
        # Lightning divides by the accumulation, and the strategy averages over ranks.
        return loss * self.trainer.accumulate_grad_batches * self._replica.count

    def validation_step(self, batch: list[Graded], batch_idx: int, dataloader_idx: int = 0) -> None:
        """Completions come graded; callbacks turn them into numbers."""

    def test_step(self, batch: list[Graded], batch_idx: int, dataloader_idx: int = 0) -> None:
        """As in validation."""

    def on_fit_start(self) -> None:
        """Put the reference, which Lightning does not see, where the policy is."""
        if self.reference is not None and not is_sharded(self.reference):
            self.reference.to(self.device)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Record the gradient's norm before clipping; stop all ranks if it is not finite.

        A mini-batch without any loss token on any rank says nothing, so the optimiser leaves the
        weights alone: neither its momentum nor its weight decay moves them.

        Raises:
            NonFiniteError: on every rank, with the step, the metric and the last good checkpoint.
        """
        norm = gradient_norm(list(self.policy.parameters()))
        bad_loss = (~torch.isfinite(self.meters.last_loss)).float()
        if dist.is_initialized():
            dist.all_reduce(bad_loss, op=dist.ReduceOp.MAX)
        for name, bad in (("train/loss", bad_loss > 0), ("train/gradient/norm", ~norm.isfinite())):
            if bool(bad):
                raise NonFiniteError(self._describe(name))
        self.meters.update_norm(norm)
        self.meters.last["train/learning_rate"] = optimizer.param_groups[0]["lr"]
        if self._denominator is not None and not bool(self._denominator):
            optimizer.zero_grad(set_to_none=True)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip as the trainer is told to; sharded gradients by a norm over all ranks."""
        by_norm = gradient_clip_algorithm in (None, "norm")
        if gradient_clip_val and by_norm and is_sharded(self.policy):
            clip_gradients(list(self.policy.parameters()), gradient_clip_val)
        else:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @property
    def _replica(self) -> Replica:
        return Replica.of(self.trainer)

    def on_train_batch_end(self, outputs: Any, batch: Rollouts, batch_idx: int) -> None:
        """After the step's last micro-batch, log it: sums and counts of all ranks, reduced once."""
        if not self.trainer.is_last_batch:
            return
        source = cast(StepSource, cast(Any, self.trainer).datamodule)
        values = self.meters.reduce(copies=self._replica.copies) | source.step_metrics
        values |= {f"time/{name}_seconds": value for name, value in source.seconds.items()}
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=1)

    def configure_optimizers(self) -> Any:
        """The optimiser of what is trained and its schedule, which counts optimiser steps."""
        optimizer = self.optimizer(p for p in self.policy.parameters() if p.requires_grad)
        total = int(self.trainer.estimated_stepping_batches)
        scheduler = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: self.schedule.factor(step, total_steps=total)
        )
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Store what the weights mean: which policy, which algorithm, which reference."""
        checkpoint["meaning"] = self._meaning()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a checkpoint of another policy, and to train on under another algorithm.

        Raises:
            ValueError: naming what differs.
        """
        saved, now = checkpoint.get("meaning"), self._meaning()
        if saved is None:
            raise ValueError("the checkpoint was not written by gtpo-lit: it says no meaning")
        refuse_other_base(saved.get("base"), now["base"])
        saved, now = ({**part, "base": None} for part in (saved, now))
        if self.trainer.state.fn != "fit":
            kept = ("architecture", "policy.lora")
            saved, now = ({name: part.get(name) for name in kept} for part in (saved, now))
        refuse_changes("model", saved=saved, now=now)

    def _kl_term(self, logp: Tensor, batch: Rollouts) -> Tensor | float:
        if batch.logp_ref is None:
            return 0.0
        values = kl_estimate(
            logp, batch.logp_ref, self.kl_kind, straight_through=self.kl_straight_through
        )
        algorithm = self.algorithm
        kl = aggregate_tokens(
            values,
            batch.loss_mask,
            algorithm.aggregate,
            max_length=algorithm.max_length,
            denominator=batch.denominator,
        )
        self.meters.add("train/kl/reference", kl.detach())
        return self.kl_weight * kl

    def _meaning(self) -> dict[str, Any]:
        spec = self.policy_spec
        return {
            "architecture": architecture(self.policy),
            "policy.lora": spec.lora and spec.lora.meaning(),
            "base": self._base[0].meaning(spec) if self._base else None,
            "algorithm": type(self.algorithm).__name__,
            "kl_weight": self.kl_weight,
            "reference": self._reference_fingerprint,
        }

    def _describe(self, metric: str) -> str:
        saved = getattr(self.trainer.checkpoint_callback, "last_saved", "")
        checkpoint = saved or self.trainer.ckpt_path or "none"
        return (
            f"{metric} is not finite in RL step {self.trainer.current_epoch + 1} (optimiser step "
            f"{self.trainer.global_step}); last good checkpoint: {checkpoint}"
        )

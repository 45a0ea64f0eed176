import copy
from types import SimpleNamespace

import pytest
import torch

from callbacks import WeightSyncProbe
from gtpo_lit.policy import PolicySpec
from gtpo_lit.sampling.transformers import TransformersSampler
from gtpo_lit.types import SamplingSettings


class Engine(TransformersSampler):
    """Draws from a copy of the policy, and can be made stale in three ways."""

    def __init__(self):
        super().__init__()
        self.stale_cache = self.deaf = False
        self.offset = 0.0
        self.pushed, self.rested, self.limit = [], 0, None

    def push_weights(self, policy, version):
        if self.version != version:
            self.pushed.append(version)
            if not self.deaf:
                super().push_weights(copy.deepcopy(policy), version)
            self.version = version

    def longest_prompt(self, policy):
        return self.limit

    def reset_prefix_cache(self):
        self.stale_cache = False

    def rest(self):
        self.rested += 1

    def generate(self, requests, settings):
        self.asked = requests
        rows = super().generate(requests, settings)
        if self.stale_cache:
            for row in rows:
                object.__setattr__(row[0], "logprobs", tuple(x - 0.5 for x in row[0].logprobs))
        return rows


@pytest.fixture
def run(tiny_qwen2):
    spec = PolicySpec(path=str(tiny_qwen2))
    module = SimpleNamespace(policy=spec.load(), policy_spec=spec, logged={})
    module.log = lambda name, value, **_: module.logged.update({name: float(value)})
    data = SimpleNamespace(sampler=Engine(), sampling=SamplingSettings(temperature=0.7))
    trainer = SimpleNamespace(datamodule=data, current_epoch=0, global_step=0)
    return trainer, module


def change(policy):
    with torch.no_grad():
        policy.model.model.norm.weight.mul_(0.9)


def probe(run, **options):
    WeightSyncProbe(**options).on_train_batch_start(*run, None, 0)


def test_equal_weights_have_no_gap(run):
    trainer, module = run
    for step in range(3):
        trainer.global_step = step
        probe(run)
        assert module.logged["train/weight_sync/gap_max"] < 1e-5
        assert module.logged["train/weight_sync/gap_mean"] < 5e-6
        change(module.policy)
    assert trainer.datamodule.sampler.pushed == [0, 1, 2]
    assert trainer.datamodule.sampler.rested == 3


def test_the_gap_is_the_distance_of_log_probs(run):
    trainer, module = run
    trainer.datamodule.sampler.stale_cache = True
    probe(run, tolerance=1.0)
    assert module.logged["train/weight_sync/gap_max"] == pytest.approx(0.5, abs=1e-5)
    assert module.logged["train/weight_sync/gap_mean"] == pytest.approx(0.5, abs=1e-5)


def test_weights_that_changed_after_the_push_are_found_and_named(run):
    trainer, module = run
    trainer.datamodule.sampler.push_weights(module.policy, 0)
    change(module.policy)
    with pytest.raises(RuntimeError, match="its weights are stale; with the weights pushed again"):
        probe(run)


def test_a_stale_prefix_cache_is_found_and_named(run):
    trainer, _ = run
    trainer.current_epoch = trainer.global_step = 4
    trainer.datamodule.sampler.stale_cache = True
    with pytest.raises(
        RuntimeError, match=r"prefix cache is stale; with the cache reset"
    ) as raised:
        probe(run)
    assert "in RL step 5 the log-probs of Engine (weights of version 4)" in str(raised.value)
    assert "WeightSyncProbe.tolerance = 0.001" in str(raised.value)


def test_weights_that_never_arrive_are_told_apart(run):
    trainer, module = run
    sampler = trainer.datamodule.sampler
    sampler.push_weights(module.policy, 0)
    sampler.deaf = True
    change(module.policy)
    with pytest.raises(RuntimeError, match="pushing all weights again does not help"):
        probe(run)
    assert sampler.pushed == [0, 0]


def test_it_probes_every_so_many_steps_at_the_first_micro_batch_only(run):
    trainer, module = run
    watch = WeightSyncProbe(every=2)
    for epoch, batch, probed in ((0, 0, 1), (0, 1, 1), (1, 0, 1), (2, 0, 2), (2, 1, 2)):
        trainer.current_epoch = trainer.global_step = epoch
        watch.on_train_batch_start(trainer, module, None, batch)
        assert len(trainer.datamodule.sampler.pushed) == probed


def test_prompts_are_fixed_and_fit_the_engine(run):
    trainer, module = run
    probe(run)
    first = trainer.datamodule.sampler.asked
    # 256 positions hold a prompt of 248 and eight tokens more.
    assert [len(request.prompt_ids) for request in first] == [1, 12, 248]
    probe(run)
    assert trainer.datamodule.sampler.asked == first
    trainer.datamodule.sampler.limit = 20
    probe(run)
    assert [len(request.prompt_ids) for request in trainer.datamodule.sampler.asked] == [1, 12]


def test_a_sampler_without_log_probs_is_refused(run):
    trainer, _ = run
    trainer.datamodule.sampler.generate = lambda requests, settings: [[] for _ in requests]
    with pytest.raises(
        RuntimeError, match="needs the engine's log-probs, but Engine returned none"
    ):
        probe(run)


@pytest.mark.parametrize("options", [{"every": 0}, {"tokens": 0}, {"tolerance": 0.0}])
def test_options_out_of_range_are_named(options):
    with pytest.raises(ValueError, match=f"WeightSyncProbe.{next(iter(options))} must be"):
        WeightSyncProbe(**options)

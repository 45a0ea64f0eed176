"""Real `vllm serve` processes on a CPU: weights arrive, deaths are survived, nothing is left."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from gtpo_lit.sampling.process_group import members
from gtpo_lit.sampling.vllm_http import wait_until
from gtpo_lit.types import SamplingSettings

sys.path.insert(0, str(Path(__file__).parent))
from vllm_following import ADAPTERS, GREEDY, draw_a_crowd, follow, gap, load, requests, update
from vllm_servers import START_SECONDS, Servers

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def servers(tiny_qwen2, tmp_path_factory):
    started = Servers(tiny_qwen2, 2, tmp_path_factory.mktemp("logs"))
    yield started
    assert started.end(signal.SIGTERM) == 143
    started.assert_nothing_is_left()


@pytest.fixture
def policy(tiny_qwen2):
    return load(tiny_qwen2)


def test_after_every_update_the_servers_are_the_policy(servers, tiny_qwen2):
    sampler = servers.sampler()
    sampler.check(None, [GREEDY])
    assert sampler.longest_prompt(None) == 255
    follow(sampler, load(tiny_qwen2), 20)
    sampler.close()
    # Another trainer with the same version numbers pushes for itself.
    follow(servers.sampler(), load(tiny_qwen2), 2)


def test_servers_get_merged_adapters(servers, tiny_qwen2):
    policy = load(tiny_qwen2, ADAPTERS)
    base = policy.fingerprint(base=True)
    sampler = servers.sampler()
    follow(sampler, policy, 4)
    sampler.close()
    assert policy.fingerprint(base=True) == base


@pytest.mark.parametrize(
    "model",
    [
        "tiny_untied_llama",
        pytest.param("tiny_untied", marks=pytest.mark.slow),
        pytest.param("tiny_llama", marks=pytest.mark.slow),
    ],
)
def test_other_models_follow_and_ctrl_c_ends_all(model, request, tmp_path):
    folder = request.getfixturevalue(model)
    servers = Servers(folder, 1, tmp_path)
    try:
        follow(servers.sampler(), load(folder), 20)
        assert members(servers.groups[0])
    finally:
        code = servers.end(signal.SIGINT)
    assert code == 130
    servers.assert_nothing_is_left()


def test_completions_do_not_depend_on_servers(servers, policy):
    settings = SamplingSettings(max_tokens=20)
    asked = requests(samples=4, prompts=tuple((4, 5, 6 + index) for index in range(12)))
    found = []
    for urls in (servers.urls, servers.urls[:1], servers.urls[1:]):
        sampler = servers.sampler(*urls)
        sampler.push_weights(policy, 0)
        found.append(sampler.generate(asked, settings))
        sampler.close()
    tokens = [[[row.token_ids for row in rows] for rows in part] for part in found]
    assert tokens[0] == tokens[1] == tokens[2]
    assert len({row for rows in tokens[0] for row in rows}) > 40
    for rows in found[0]:
        for row in rows:
            assert (row.finish_reason == "stop") == (row.token_ids[-1] == 1)
            assert row.finish_reason == "stop" or len(row.token_ids) == 20


def test_a_step_of_more_prompt_tokens_than_a_batch_takes(servers, policy):
    sampler = servers.sampler()
    sampler.push_weights(policy, 0)
    draw_a_crowd(sampler)
    assert sampler._fleet.out == {}
    sampler.close()


def test_two_ranks_with_two_servers_learn_as_one(servers, runs, tiny_qwen2):
    options = (
        f"--model.policy.path={tiny_qwen2}",
        "--data.sampler=gtpo_lit.sampling.vllm_server.VLLMServerSampler",
        f"--data.sampler.urls=[{','.join(servers.urls)}]",
        "--trainer.callbacks+=callbacks.WeightSyncProbe",
    )
    one = runs.apart("--run.name=one", *options)
    assert one.returncode == 0, one.stderr[-3000:]
    two = runs.apart(
        "--run.name=two", "--data.micro_batches=2", "--config=configs/strategy/ddp.yaml", *options
    )
    assert two.returncode == 0, two.stderr[-3000:]
    ours, theirs = runs.rows(name="one"), runs.rows(name="two")
    assert len(ours) == len(theirs) == 3
    for row in (*ours[1:], *theirs[1:]):
        # This model's logits are far apart: rounding is some 1e-5 here.
        assert 0 < float(row["train/weight_sync/gap_max"]) < 1e-4
    for first, second in zip(ours, theirs, strict=True):
        assert first.keys() == second.keys()
        for name in first:
            if first[name]:
                wanted = pytest.approx(float(second[name]), rel=1e-4, abs=1e-4)
                assert float(first[name]) == wanted, name


def test_a_server_killed_in_mid_step_costs_nothing_and_comes_back(servers, policy):
    settings = SamplingSettings(max_tokens=200)
    asked = requests(samples=8, prompts=tuple((4, 5, 6 + index) for index in range(24)))
    sampler = servers.sampler(requests_in_flight=4, retries=1)
    sampler.push_weights(policy, 0)
    wanted = sampler.generate(asked, settings)
    assert gap(policy, asked, wanted, 1.0) < 1e-5
    victim = servers.groups[0]

    def kill():
        # In the middle: it has answered once, and has more in hand.
        engine = next(e for e in sampler._engines if e.url == servers.urls[0])
        wait_until(lambda: len(engine.client._open) == 4, timeout=60, interval=0.005)
        time.sleep(0.3)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found = sampler.generate(asked, settings)
    killer.join()
    assert list(sampler._fleet.out) == [servers.urls[0]]
    assert sampler.redone >= 1
    assert [[row.token_ids for row in rows] for rows in found] == [
        [row.token_ids for row in rows] for rows in wanted
    ]
    assert gap(policy, asked, found, 1.0) < 1e-5
    # The script starts another; it gets its weights at the next push and works again.
    engine = next(e for e in sampler._engines if e.url == servers.urls[0])
    engine.restart()
    assert wait_until(engine.healthy, timeout=START_SECONDS)
    assert engine.weight_version() == "default"
    update(policy, torch.optim.AdamW(policy.parameters(), lr=1e-2), 1)
    sampler.push_weights(policy, 1)
    assert sampler._fleet.out == {}
    found = sampler.generate(asked, settings)
    assert gap(policy, asked, found, 1.0) < 1e-5
    assert engine.weight_version() == sampler._label

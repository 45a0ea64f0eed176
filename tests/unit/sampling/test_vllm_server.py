from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from gtpo_lit.sampling import vllm_remote
from gtpo_lit.sampling.vllm_fleet import NoServerLeft
from gtpo_lit.sampling.vllm_remote import WrongSetup
from gtpo_lit.sampling.vllm_requests import EngineError
from gtpo_lit.sampling.vllm_server import VLLMServerSampler
from gtpo_lit.types import SampleRequest, SamplingSettings

sys.path.insert(0, str(Path(__file__).parent))
from stub_vllm_server import Drop, Hang, StubServer

GENERATE = "/inference/v1/generate"
PUSH = [
    "gtpo_lit_setup",
    "/pause",
    "gtpo_lit_load",
    "/update_weight_version",
    "/reset_prefix_cache",
    "/resume",
]
SETTINGS = SamplingSettings(max_tokens=8)


def make_policy(value: float = 1.0) -> SimpleNamespace:
    model = nn.Linear(2, 3)
    nn.init.constant_(model.weight, value)
    nn.init.constant_(model.bias, -value)
    tokenizer = SimpleNamespace(decode=lambda ids, **_: " ".join(map(str, ids)))
    return SimpleNamespace(model=model, tokenizer=tokenizer, end_token_ids=(1,))


def asked(count: int, samples: int = 2) -> list[SampleRequest]:
    return [
        SampleRequest(prompt_ids=(4, 5 + place), seeds=tuple(range(7 * place, 7 * place + samples)))
        for place in range(count)
    ]


@pytest.fixture
def record():
    return []


@pytest.fixture
def stubs(record):
    servers = [StubServer(name, record) for name in ("a", "b")]
    yield servers
    for server in servers:
        server.kill()


@pytest.fixture
def make(stubs, tmp_path):
    made = []

    def make(servers=stubs, **options):
        settings = {"retries": 1, "start_timeout": 2.0, "weights_folder": str(tmp_path)}
        sampler = VLLMServerSampler(urls=[s.url for s in servers], **{**settings, **options})
        for engine in sampler._engines:
            engine.client.backoff = 0.01
        made.append(sampler)
        return sampler

    yield make
    for sampler in made:
        sampler.close()
    assert list(tmp_path.iterdir()) == []  # no weights are left behind


def test_push_comes_whole_and_the_cache_is_reset_before_the_next_request(stubs, record, make):
    (stub, other), policy = stubs, make_policy(0.5)
    sampler = make([stub])
    sampler.push_weights(policy, 0)
    assert stub.paths() == PUSH
    assert stub.weights.keys() == {"weight", "bias"}
    assert torch.equal(stub.weights["weight"], torch.full((3, 2), 0.5))
    assert torch.equal(stub.weights["bias"], torch.full((3,), -0.5))
    sampler.generate(asked(1), SETTINGS)
    sampler.push_weights(policy, 0)
    sampler.generate(asked(1), SETTINGS)
    assert stub.paths() == [*PUSH, GENERATE, GENERATE]
    nn.init.constant_(policy.model.weight, 0.25)
    sampler.push_weights(policy, 1)
    sampler.generate(asked(1), SETTINGS)
    assert stub.paths() == [*PUSH, GENERATE, GENERATE, *PUSH, GENERATE]
    assert torch.equal(stub.weights["weight"], torch.full((3, 2), 0.25))
    assert sampler.version == 1
    assert other.paths() == []


def test_a_resumed_trainer_pushes_whatever_the_server_holds(stubs, make):
    stub, policy = stubs[0], make_policy()
    first = make([stub])
    first.push_weights(policy, 7)
    label = stub.version
    assert re.fullmatch(r"[0-9a-f]{8}-7", label)
    resumed = make([stub])
    resumed.push_weights(policy, 7)
    assert re.fullmatch(r"[0-9a-f]{8}-7", stub.version)
    assert stub.version != label
    assert stub.paths() == [*PUSH, *PUSH]
    # The first trainer finds out that its weights are gone.
    with pytest.raises(NoServerLeft, match=r"drawn with weights \['[0-9a-f]{8}-7'\], not with"):
        first.generate(asked(1), SETTINGS)
    resumed.close()
    resumed.push_weights(policy, 7)
    assert stub.paths()[-6:] == PUSH


def test_tokens_go_out_and_come_in_as_they_are(stubs, make):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    (drawn,) = sampler.generate([SampleRequest(prompt_ids=(2, 2, 9), seeds=(10, 99))], SETTINGS)
    assert [completion.token_ids for completion in drawn] == [(25, 26, 1), (26, 27, 1)]
    assert [completion.logprobs for completion in drawn] == [(-2.5, -2.6, -0.1), (-2.6, -2.7, -0.1)]
    assert [completion.text for completion in drawn] == ["25 26", "26 27"]
    assert [completion.finish_reason for completion in drawn] == ["stop", "stop"]
    (body,) = [*stubs[0].bodies, *stubs[1].bodies]
    assert body == {
        "token_ids": [2, 2, 9],
        "sampling_params": {
            "n": 2,
            "temperature": 1.0,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "max_tokens": 8,
            "stop_token_ids": [1],
            "detokenize": False,
            "logprobs": 0,
            "seed": 10,
        },
    }


def test_a_response_that_is_cut_keeps_its_tokens(stubs, make):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    (drawn,) = sampler.generate(asked(1), SamplingSettings(max_tokens=2))
    assert [completion.token_ids for completion in drawn] == [(11, 12), (12, 13)]
    assert [completion.finish_reason for completion in drawn] == ["length", "length"]


def test_requests_are_spread_and_come_back_in_order(stubs, make):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    requests = asked(40)
    drawn = sampler.generate(requests, SETTINGS)
    firsts = [[2 + (9 + place + 7 * place + n) % 50 for n in (0, 1)] for place in range(40)]
    assert [[completion.token_ids[0] for completion in row] for row in drawn] == firsts
    counts = [len(stub.bodies) for stub in stubs]
    assert sum(counts) == 40
    assert min(counts) > 0
    assert sampler.generate([], SETTINGS) == []


def die(stub):
    """At the first request: no answer, and never one again."""

    def fault(_body):
        threading.Thread(target=stub.kill).start()
        raise Drop

    return fault


def hang(_stub):
    def fault(_body):
        raise Hang

    return fault


def says(status, text):
    return lambda _stub: lambda _body: (status, text.encode())


def changed(**changes):
    """The right answer for one completion, but for some of its fields."""

    def make_fault(stub):
        def fault(body):
            choice = stub._choice(body, 0) | changes
            second = stub._choice(body, 1)
            return 200, json.dumps({"choices": [choice, second]}).encode()

        return fault

    return make_fault


BROKEN = {
    "death": (die, r"ConnectionRefusedError|RemoteDisconnected|ConnectionResetError"),
    "hang": (hang, r"no answer within 0\.5 s"),
    "error": (says(500, "engine is dead"), "status 500: engine is dead"),
    "garbage": (says(200, "<html>oops"), "the answer is not JSON: <html>oops"),
    "old weights": (
        changed(weight_versions=[{"version": "default", "start": 0, "end": 3}]),
        r"drawn with weights \['default'\], not with '[0-9a-f]{8}-0'",
    ),
    "two weights": (
        changed(weight_versions=[{"version": v, "start": 0, "end": 3} for v in "xy"]),
        r"drawn with weights \['x', 'y'\]",
    ),
    "unknown weights": (changed(weight_versions=None), r"drawn with weights \[\]"),
}
# Here the prompt may be at fault as well.
UNUSABLE = {
    "empty": (says(200, ""), "unusable answer"),
    "other JSON": (says(200, "[1, 2]"), "unusable answer"),
    "no choices": (says(200, '{"choices": []}'), r"asked for 2 completions, got .* \[\]"),
    "too many": (changed(index=7), r"asked for 2 completions, got .* \[1, 7\]"),
    "aborted": (changed(finish_reason="abort"), "finish reason 'abort'"),
    "nothing": (changed(token_ids=[], logprobs={"content": []}), "an empty completion"),
    "no log-probs": (changed(logprobs=None), "unusable answer"),
    "other tokens": (changed(token_ids=[9, 9, 9]), "the log-probs are those of other tokens"),
    "stop on no end": (
        changed(token_ids=[9], logprobs={"content": [{"token_id": 9, "logprob": -1.0}]}),
        "stopped on token 9",
    ),
    "NaN": (
        changed(token_ids=[1], logprobs={"content": [{"token_id": 1, "logprob": float("nan")}]}),
        "not finite",
    ),
}
BAD = BROKEN | UNUSABLE


@pytest.mark.parametrize("name", BAD)
def test_what_a_failing_server_had_in_hand_is_done_by_the_other(name, stubs, make):
    fault, reason = BAD[name]
    good = make()
    good.push_weights(make_policy(), 0)
    wanted = good.generate(asked(12), SETTINGS)
    sampler = make(request_timeout=0.5)
    sampler.push_weights(make_policy(), 0)
    stubs[0].fault[GENERATE] = fault(stubs[0])
    assert sampler.generate(asked(12), SETTINGS) == wanted
    assert sampler.redone >= 1
    assert list(sampler._fleet.out) == [stubs[0].url]
    assert re.search(reason, sampler._fleet.out[stubs[0].url])
    assert stubs[0].url in sampler._fleet.out[stubs[0].url]
    before = len(stubs[0].bodies)
    assert sampler.generate(asked(3), SETTINGS) == wanted[:3]
    assert len(stubs[0].bodies) == before


@pytest.mark.parametrize("name", BROKEN)
def test_the_end_is_clear_when_no_server_is_left(name, stubs, make):
    fault, reason = BROKEN[name]
    sampler = make(request_timeout=0.5)
    sampler.push_weights(make_policy(), 0)
    for stub in stubs:
        stub.fault[GENERATE] = fault(stub)
    with pytest.raises(NoServerLeft, match="no vLLM server is left of 2: ") as caught:
        sampler.generate(asked(12), SETTINGS)
    for stub in stubs:
        assert re.search(rf"{stub.url}: .*?({reason})", str(caught.value))
    with pytest.raises(NoServerLeft):
        sampler.generate(asked(1), SETTINGS)


@pytest.mark.parametrize("name", UNUSABLE)
def test_the_end_is_clear_when_no_answer_is_usable(name, stubs, make):
    fault, reason = UNUSABLE[name]
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    for stub in stubs:
        stub.fault[GENERATE] = fault(stub)
    with pytest.raises(EngineError, match=rf"none of 12 requests; the first: .*({reason})"):
        sampler.generate(asked(12), SETTINGS)
    # Once both to each: 12 prompts, asked twice at two servers.
    assert [stub.paths().count(GENERATE) for stub in stubs] == [24, 24]


def unusable_for(prompt, times=10**9):
    """Nonsense for one prompt, so many times; right answers for all others."""
    left = [times]

    def fault(body):
        if body["token_ids"] != prompt or left[0] == 0:
            return None
        left[0] -= 1
        return 200, b'{"choices": "nonsense"}'

    return fault


def test_a_malformed_answer_is_asked_for_again_at_the_same_server(stubs, make, caplog):
    sampler = make(retries=2)
    sampler.push_weights(make_policy(), 0)
    wanted = sampler.generate(asked(6), SETTINGS)
    before = [stub.paths().count(GENERATE) for stub in stubs]
    for stub in stubs:
        stub.fault[GENERATE] = unusable_for([4, 7], times=2)
    assert sampler.generate(asked(6), SETTINGS) == wanted
    assert (sampler._fleet.out, sampler.redone) == ({}, 0)
    assert sum(stub.paths().count(GENERATE) for stub in stubs) == sum(before) + 6 + 2
    assert "unusable answer: TypeError: " in caplog.text
    assert "asking again (1 left)" in caplog.text


@pytest.mark.parametrize("count", [1, 2])
def test_a_prompt_that_gets_no_usable_answer_costs_itself_alone(count, stubs, make, caplog):
    sampler = make(stubs[:count], retries=1)
    sampler.push_weights(make_policy(), 0)
    wanted = sampler.generate(asked(6), SETTINGS)
    for stub in stubs:
        stub.fault[GENERATE] = unusable_for([4, 7])
    assert sampler.generate(asked(6), SETTINGS) == [*wanted[:2], [], *wanted[3:]]
    assert sampler._fleet.out == {}
    assert "request 2 is dropped" in caplog.text
    assert "its prompt: '4 7'" in caplog.text
    for stub in stubs:
        stub.fault = {}
    assert sampler.generate(asked(6), SETTINGS) == wanted


def test_a_server_is_out_where_another_answers_what_it_could_not(stubs, make):
    sampler = make(retries=1, requests_in_flight=1)
    sampler.push_weights(make_policy(), 0)
    wanted = sampler.generate(asked(6), SETTINGS)
    stubs[0].fault[GENERATE] = says(200, "[1, 2]")(stubs[0])
    assert sampler.generate(asked(6), SETTINGS) == wanted
    assert list(sampler._fleet.out) == [stubs[0].url]
    assert "unusable answer" in sampler._fleet.out[stubs[0].url]
    sampler.push_weights(make_policy(), 1)
    assert sampler._fleet.out == {}


def test_a_server_that_falls_silent_is_found_by_its_health(stubs, make, monkeypatch):
    monkeypatch.setattr(vllm_remote, "HEALTH_TIMEOUT", 0.2)
    sampler = make(request_timeout=60.0, health_interval=0.2)
    sampler.push_weights(make_policy(), 0)
    stubs[0].fault = {GENERATE: hang(None), "/health": hang(None)}
    start = time.monotonic()
    drawn = sampler.generate(asked(8), SETTINGS)
    assert [len(row) for row in drawn] == [2] * 8
    assert time.monotonic() - start < 20
    assert sampler._fleet.out == {stubs[0].url: "the health check fails"}


def test_a_passing_failure_is_retried_at_the_same_server(stubs, make, caplog):
    sampler = make([stubs[0]], retries=2)
    sampler.push_weights(make_policy(), 0)
    left = iter([503, 429])
    stubs[0].fault[GENERATE] = lambda _body: (
        (status, b"busy") if (status := next(left, 0)) else None
    )
    (drawn,) = sampler.generate(asked(1), SETTINGS)
    assert [completion.token_ids for completion in drawn] == [(11, 12, 1), (12, 13, 1)]
    assert stubs[0].paths() == [*PUSH, GENERATE, GENERATE, GENERATE]
    assert sampler.redone == 0
    assert f"POST {stubs[0].url}{GENERATE}: status 503: busy; trying again" in caplog.text


def test_a_failed_push_takes_that_server_out_and_the_next_one_brings_it_back(stubs, make):
    sampler = make()
    stubs[0].fault["/collective_rpc"] = lambda body: (
        (500, b"disk on fire") if body["method"] == "gtpo_lit_load" else None
    )
    sampler.push_weights(make_policy(), 0)
    assert "disk on fire" in sampler._fleet.out[stubs[0].url]
    assert len(sampler.generate(asked(6), SETTINGS)) == 6
    assert (len(stubs[0].bodies), len(stubs[1].bodies)) == (0, 6)
    # The load is never repeated, and a server that failed in the middle stays paused.
    assert stubs[0].paths() == PUSH[:3]
    assert stubs[0].paused
    stubs[0].fault = {}
    sampler.push_weights(make_policy(0.5), 1)
    assert sampler._fleet.out == {}
    sampler.generate(asked(20), SETTINGS)
    assert len(stubs[0].bodies) > 0
    assert torch.equal(stubs[0].weights["weight"], torch.full((3, 2), 0.5))


@pytest.mark.parametrize("path", ["/pause", "/update_weight_version", "/resume"])
def test_a_push_that_fails_anywhere_leaves_no_server_in_use(path, stubs, make):
    sampler = make()
    for stub in stubs:
        stub.fault[path] = lambda _body: (500, b"no")
    with pytest.raises(NoServerLeft, match=f"{path}: status 500: no"):
        sampler.push_weights(make_policy(), 0)
    assert sampler.version is None
    with pytest.raises(AssertionError, match="push_weights comes before generate"):
        sampler.generate(asked(1), SETTINGS)


def test_a_cache_that_cannot_be_reset_takes_the_server_out(stubs, make, monkeypatch):
    sampler = make()
    busy = iter([b'{"success": false}'] * 2)
    stubs[0].fault["/reset_prefix_cache"] = lambda _body: (
        (200, answer) if (answer := next(busy, None)) else None
    )
    sampler.push_weights(make_policy(), 0)
    assert sampler._fleet.out == {}
    assert stubs[0].paths().count("/reset_prefix_cache") == 3
    monkeypatch.setattr(vllm_remote, "RESET_ATTEMPTS", 2)
    stubs[0].fault["/reset_prefix_cache"] = lambda _body: (200, b'{"success": false}')
    sampler.push_weights(make_policy(), 1)
    assert "the prefix cache could not be reset" in sampler._fleet.out[stubs[0].url]
    assert stubs[0].paths()[-1] == "/reset_prefix_cache"  # no resume


def test_a_restarted_server_gets_weights_before_requests(stubs, record, make):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    stubs[0].restart()
    # Its answers are refused, since they were drawn with no weights of ours.
    drawn = sampler.generate(asked(10), SETTINGS)
    assert [len(row) for row in drawn] == [2] * 10
    assert "drawn with weights ['default']" in sampler._fleet.out[stubs[0].url]
    del record[:]
    sampler.push_weights(make_policy(), 1)
    sampler.generate(asked(30), SETTINGS)
    assert stubs[0].paths()[:6] == PUSH
    assert GENERATE in stubs[0].paths()


def test_a_server_that_is_gone_comes_back_at_a_push(stubs, make):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    stubs[1].kill()
    sampler.push_weights(make_policy(), 1)
    assert list(sampler._fleet.out) == [stubs[1].url]
    sampler.push_weights(make_policy(), 2)
    assert list(sampler._fleet.out) == [stubs[1].url]
    stubs[1].restart()
    sampler.push_weights(make_policy(), 3)
    assert sampler._fleet.out == {}
    assert stubs[1].version.endswith("-3")


def test_a_refused_prompt_costs_itself_alone(stubs, make, caplog):
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    for stub in stubs:
        stub.fault[GENERATE] = lambda body: (
            (400, b"no such token") if body["token_ids"] == [4, 7] else None
        )
    drawn = sampler.generate(asked(4), SETTINGS)
    assert [len(row) for row in drawn] == [2, 2, 0, 2]
    assert drawn[3][0].token_ids == (2 + (12 + 21) % 50, 3 + (12 + 21) % 50, 1)
    assert "no such token" in caplog.text
    assert "'4 7'" in caplog.text
    assert sampler._fleet.out == {}
    with pytest.raises(EngineError, match=r"none of 1 requests.*no such token"):
        sampler.generate([asked(4)[2]], SETTINGS)


def test_prompts_that_fill_the_limit_are_not_sent_and_max_tokens_shrinks(stubs, make, caplog):
    sampler = make()
    stubs[1].setup["max_model_len"] = 16
    sampler.push_weights(make_policy(), 0)
    lengths = (3, 15, 16, 17)
    requests = [SampleRequest(prompt_ids=(3,) * n, seeds=(0,)) for n in lengths]
    drawn = sampler.generate(requests, SamplingSettings(max_tokens=20))
    assert [len(row) for row in drawn] == [1, 1, 0, 0]
    bodies = [*stubs[0].bodies, *stubs[1].bodies]
    sent = {len(body["token_ids"]): body["sampling_params"]["max_tokens"] for body in bodies}
    assert sent == {3: 13, 15: 1}
    assert drawn[1][0].finish_reason == "length"
    assert "2 of 4 prompts" in caplog.text
    assert sampler.longest_prompt(None) == 15


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logits"])
def test_log_probs_that_ignore_the_temperature_are_refused(mode, stubs, make):
    stubs[1].setup["logprobs_mode"] = mode
    with pytest.raises(WrongSetup, match=f"{stubs[1].url} runs with --logprobs-mode {mode}"):
        make().check(None, [SETTINGS])


def test_a_server_without_the_extension_is_refused_with_a_hint(stubs, make):
    stubs[0].fault["/collective_rpc"] = lambda _body: (404, b"not found")
    with pytest.raises(WrongSetup, match=r"status 404.*scripts/serve_vllm\.py"):
        make().check(None, [SETTINGS])


def test_nccl_needs_servers_that_speak_it(stubs, make):
    with pytest.raises(WrongSetup, match="weight transfer None, but the sampler sends .* 'nccl'"):
        make(transport="nccl").check(None, [SETTINGS])


def test_servers_are_waited_for_and_asked_before_any_weights_load(stubs, make, record):
    stubs[0].kill()
    threading.Timer(0.5, stubs[0].restart).start()
    sampler = make(start_timeout=10.0)
    sampler.check(None, [SETTINGS])
    assert sorted(record) == [("a", "gtpo_lit_setup"), ("b", "gtpo_lit_setup")]
    assert sampler.longest_prompt(None) == 31
    with pytest.raises(ValueError, match="temperature must be at most 2 with vLLM, got 3"):
        sampler.check(None, [SETTINGS, SamplingSettings(temperature=3.0)])


def test_no_server_at_the_start_is_told_by_name(stubs, make):
    for stub in stubs:
        stub.kill()
    with pytest.raises(
        NoServerLeft, match="of 2: {}: .*; {}: ".format(*sorted(stub.url for stub in stubs))
    ):
        make(start_timeout=0.0).check(None, [SETTINGS])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"urls": []}, "urls must name at least one server"),
        ({"urls": ["http://127.0.0.1:1/", "http://127.0.0.1:1"]}, "none twice"),
        ({"urls": ["127.0.0.1:8000"]}, "must be given as http://HOST:PORT, got '127.0.0.1:8000'"),
        ({"urls": ["http://127.0.0.1:99999"]}, "must be given as"),
        ({"urls": ["http://10.1.2.3:8000"]}, r"10\.1\.2\.3.*weights_folder.*'nccl'"),
        ({"urls": ["http://other:8000"]}, "are on other machines"),
        ({"transport": "ipc"}, "transport must be in .*, got 'ipc'"),
        ({"weights_folder": "/no/such"}, "weights_folder must be a folder .* got '/no/such'"),
        ({"requests_in_flight": 0}, "requests_in_flight must be at least 1, got 0"),
        ({"retries": -1}, "retries must be at least 0, got -1"),
        ({"request_timeout": 0}, r"request_timeout must be at least 0\.01, got 0"),
        ({"push_timeout": float("nan")}, "push_timeout must be at least .* got nan"),
    ],
)
def test_options_are_checked_before_anything_is_asked(options, message):
    with pytest.raises(ValueError, match=message):
        VLLMServerSampler(**options)


def test_ctrl_c_leaves_no_thread_and_no_request(stubs, make, caplog):
    caplog.set_level(logging.ERROR)
    sampler = make()
    sampler.push_weights(make_policy(), 0)
    for stub in stubs:
        stub.fault[GENERATE] = hang(None)
    threads = threading.active_count()

    def interrupt(*_):
        raise KeyboardInterrupt

    sampler._fleet._watch = interrupt
    with pytest.raises(KeyboardInterrupt):
        sampler.generate(asked(5), SETTINGS)
    # The stubs' own threads hang until the stubs end.
    alive = [t for t in threading.enumerate() if "_serve" in t.name]
    assert alive == []
    assert threading.active_count() <= threads + 10
    assert all(not engine.client._open for engine in sampler._engines)

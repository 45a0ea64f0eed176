from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import pytest

from gtpo_lit.sampling.vllm_http import HTTPClient, RequestRefused, ServerError, wait_until

sys.path.insert(0, str(Path(__file__).parent))
from stub_vllm_server import Drop, Hang, StubServer


@pytest.fixture
def stub():
    server = StubServer("a", [])
    yield server
    server.kill()


def client_of(stub, retries=2):
    return HTTPClient(stub.url, retries=retries, backoff=0.01)


def test_json_goes_both_ways(stub):
    seen = []
    stub.fault["/echo"] = lambda body: seen.append(body) or (200, json.dumps([body, 1.5]).encode())
    body = {"a": [1, None], "b": "\u00e4"}
    assert client_of(stub).post("/echo", body, timeout=5) == [body, 1.5]
    assert seen == [body]
    stub.fault["/echo"] = lambda _body: (200, b"")
    assert client_of(stub).get("/echo", timeout=5) is None


@pytest.mark.parametrize(
    ("status", "kind", "tries"),
    [
        (400, RequestRefused, 1),
        (404, RequestRefused, 1),
        (422, RequestRefused, 1),
        (408, ServerError, 3),
        (429, ServerError, 3),
        (500, ServerError, 3),
        (503, ServerError, 3),
        (302, ServerError, 3),
    ],
)
def test_what_may_pass_is_tried_again_and_what_is_wrong_is_not(stub, status, kind, tries):
    stub.fault["/x"] = lambda _body: (status, b"the   reason\n" + b"z" * 2000)
    with pytest.raises(kind, match=rf"POST {stub.url}/x: .*status {status}: the reason z+") as got:
        client_of(stub).post("/x", {}, timeout=5, query={"mode": "abort"})
    assert type(got.value) is kind
    assert len(str(got.value)) < 700
    assert stub.paths() == ["/x"] * tries


def drop(_body):
    raise Drop


def hang(_body):
    raise Hang


def test_a_dropped_connection_is_tried_again(stub):
    answers = iter([drop, drop])
    stub.fault["/x"] = lambda body: (next(answers, lambda _: (200, b"7")))(body)
    assert client_of(stub).get("/x", timeout=5) == 7
    stub.fault["/x"] = drop
    with pytest.raises(ServerError, match=rf"GET {stub.url}/x: RemoteDisconnected"):
        client_of(stub, retries=0).get("/x", timeout=5)


def test_pauses_double(stub, monkeypatch):
    stub.fault["/x"] = drop
    client = HTTPClient(stub.url, retries=3, backoff=0.5)
    pauses = []
    monkeypatch.setattr(client._stopped, "wait", pauses.append)
    with pytest.raises(ServerError):
        client.get("/x", timeout=5)
    assert pauses == [0.5, 1.0, 2.0]


def test_silence_ends_at_the_time_limit(stub):
    stub.fault["/x"] = hang
    start = time.monotonic()
    with pytest.raises(ServerError, match=rf"GET {stub.url}/x: no answer within 0\.2 s"):
        client_of(stub, retries=0).get("/x", timeout=0.2)
    assert 0.2 <= time.monotonic() - start < 10


def test_an_answer_that_is_no_json_is_quoted(stub):
    stub.fault["/x"] = lambda _body: (200, b"{\xff")
    with pytest.raises(ServerError, match="the answer is not JSON: {"):
        client_of(stub, retries=0).get("/x", timeout=5)


def test_stop_ends_requests_of_other_threads_and_restart_allows_new_ones(stub):
    stub.fault["/x"] = hang
    client = client_of(stub, retries=5)
    errors = []

    def ask():
        try:
            client.get("/x", timeout=600)
        except ServerError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(stub.paths()) == 3, timeout=10, interval=0.01)
    client.stop()
    for thread in threads:
        thread.join(10)
    assert errors == [f"GET {stub.url}/x: given up"] * 3
    with pytest.raises(ServerError, match="out of use"):
        client.get("/y", timeout=5)
    client.restart()
    assert client.get("/y", timeout=5) == {"status": "fine"}


def test_nobody_there_is_told_with_the_url(stub):
    stub.kill()
    with pytest.raises(ServerError, match=f"GET {stub.url}/x: ConnectionRefusedError"):
        client_of(stub, retries=1).get("/x", timeout=5)


def test_wait_until_says_whether_it_came_true():
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), timeout=10, interval=0.001)
    assert not wait_until(lambda: False, timeout=0.01, interval=0.001)

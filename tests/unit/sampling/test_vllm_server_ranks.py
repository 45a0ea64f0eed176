"""Two ranks (gloo) with two servers: one pushes, both wait for it, each sends its own requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from stub_vllm_server import StubServer

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow

RANK = """
import json, os, sys, time
import torch.distributed as dist
sys.path.insert(0, {here!r})
from test_vllm_server import SETTINGS, asked, make_policy
from gtpo_lit.sampling.vllm_server import VLLMServerSampler

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://{folder}/store", rank=rank, world_size=2)
urls = {urls!r}
sampler = VLLMServerSampler(urls=urls, weights_folder={folder!r}, retries=0, start_timeout=5.0)
said = []
try:
    sampler.check(None, [SETTINGS])
    for version in range(3):
        if rank == 0:
            time.sleep(0.5)  # rank 1 is first, and waits
        sampler.push_weights(make_policy(float(version)), version)
        requests = asked(12)[rank * 6 : rank * 6 + 6]
        rows = sampler.generate(requests, SETTINGS)
        # A known version is no collective: the ranks may call this as often as they like.
        for _ in range(rank):
            sampler.push_weights(sampler._policy, version)
        said.append([completion.token_ids for row in rows for completion in row])
        said.append(sorted(sampler._fleet.out))
        dist.barrier()
except Exception as error:
    said.append(f"{{type(error).__name__}}: {{error}}")
print("SAID", json.dumps([sampler._label, said]), flush=True)
dist.destroy_process_group()
"""


def run_ranks(urls, folder):
    folder.mkdir()
    program = RANK.format(here=str(HERE), folder=str(folder), urls=urls)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "RANK": str(rank), "PYTHONPATH": str(HERE.parents[2])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=300) for process in ranks]
    assert all("SAID" in out for out, _ in outputs), outputs[0][1] + outputs[1][1]
    assert list(folder.glob("*.safetensors")) == []
    return [json.loads(out.partition("SAID ")[2].splitlines()[0]) for out, _ in outputs]


@pytest.fixture
def record():
    return []


@pytest.fixture
def stubs(record):
    servers = [StubServer(name, record) for name in ("a", "b")]
    yield servers
    for server in servers:
        server.kill()


def test_one_rank_pushes_and_both_sample(stubs, record, tmp_path):
    (label, zero), (other, one) = run_ranks([stub.url for stub in stubs], tmp_path / "f")
    assert label == other
    assert label.endswith("-2")
    for stub in stubs:
        assert stub.paths().count("gtpo_lit_load") == 3
        assert stub.version == label
        assert float(stub.weights["weight"][0, 0]) == 2.0
    # Between a pause and its resume a stub refuses requests, so that no rank may be early.
    assert record.count(("a", "/inference/v1/generate")) > 0
    assert record.count(("b", "/inference/v1/generate")) > 0
    assert len([path for _, path in record if path == "/inference/v1/generate"]) == 3 * 12
    firsts = [[2 + (9 + p + 7 * p + n) % 50 for n in (0, 1)] for p in range(12)]
    for step in range(3):
        tokens = zero[2 * step] + one[2 * step]
        assert [token_ids[0] for token_ids in tokens] == [first for row in firsts for first in row]


def test_a_failed_push_takes_the_server_out_on_both_ranks(stubs, tmp_path):
    stubs[0].fault["/resume"] = lambda _body: (500, b"no")
    ranks = run_ranks([stub.url for stub in stubs], tmp_path / "f")
    for _, said in ranks:
        assert [part for index, part in enumerate(said) if index % 2] == [[stubs[0].url]] * 3
    assert stubs[0].bodies == []
    assert len(stubs[1].bodies) == 36


def test_a_push_that_reaches_nobody_ends_both_ranks(stubs, tmp_path):
    for stub in stubs:
        stub.fault["/resume"] = lambda _body: (500, b"no")
    for _, said in run_ranks([stub.url for stub in stubs], tmp_path / "f"):
        (message,) = said
        assert message.startswith("NoServerLeft: no vLLM server is left of 2: ")
        assert "/resume: status 500: no" in message

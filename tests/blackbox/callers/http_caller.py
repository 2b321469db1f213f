"""HTTP for one actor: one connection, opened again after it broke; an answer that never came is an exception."""

import contextlib
import http.client
import json
import socket
import time
from typing import Any, NamedTuple

IDLE_SECONDS = 2.0
"""A connection that rested for longer may have been closed by the broker: a new one is taken."""


class Answer(NamedTuple):
    status: int
    body: Any


class Unanswered(Exception):
    """The request may or may not have been carried out."""


class UnexpectedAnswer(Exception):
    """The broker said something that it must never say."""


class HttpCaller:
    def __init__(self, port: int, *, timeout: float = 30.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self._used = 0.0

    def __call__(self, method: str, path: str, body: Any = None) -> Answer:
        status, text = self.raw(method, path, body)
        try:
            return Answer(status, json.loads(text or b"null"))
        except ValueError as error:
            raise UnexpectedAnswer(f"{method} {path}: {status} {text[:500]!r}") from error

    def raw(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        if time.monotonic() - self._used > IDLE_SECONDS:
            self._connection.close()
        content = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, content, {"Content-Type": "application/json"} if content else {})
            answer = self._connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise Unanswered(f"{method} {path}: {error!r}") from error
        self._used = time.monotonic()
        if answer.status == 500:
            raise UnexpectedAnswer(f"{method} {path} {content or ''}: {text[:500]!r}")
        return answer.status, text

    def lose(self, method: str, path: str, body: Any = None) -> None:
        """Sends a request and hangs up when its answer has come, or after a second, without reading it."""
        content = None if body is None else json.dumps(body)
        with contextlib.suppress(OSError, http.client.HTTPException):
            self._connection.request(method, path, content, {"Content-Type": "application/json"} if content else {})
            self._connection.sock.settimeout(1.0)
            self._connection.sock.recv(1, socket.MSG_PEEK)
        self._connection.close()

    def close(self) -> None:
        self._connection.close()

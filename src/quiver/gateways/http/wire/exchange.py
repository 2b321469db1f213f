"""One request of a connection as it arrives, and its response as it leaves."""

import asyncio
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Protocol

Headers = Sequence[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}


class ClientGone(Exception):
    """The client went away; nobody is left to respond to."""


class RequestHead:
    """The request line and the headers. Of a header that comes twice the last one counts."""

    __slots__ = ("expects_continue", "headers", "is_old", "keeps_alive", "method", "path", "query", "size_bytes")

    def __init__(self, method: str, path: str, query: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.path = path
        """As it was sent: quoted."""
        self.query = query
        self.headers = headers
        """By their names in lower case."""
        self.size_bytes = 0
        """At most."""
        self.is_old = False
        """HTTP/1.0: its client understands no chunks, and the connection ends with the response."""
        self.keeps_alive = True
        """The client wants to send more requests on this connection."""
        self.expects_continue = False
        """The client sends the body only when it is told to."""


class Dated(Protocol):
    date_line: bytes


class ExchangeConnection(Protocol):
    """The connection, as an exchange sees it."""

    @property
    def server(self) -> Dated: ...

    @property
    def peer(self) -> str: ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Returns when the client has taken enough of what was written."""

    def body_taken(self) -> None:
        """The handler has taken what there was of the body."""

    def response_ended(self) -> None: ...

    def abort(self) -> None: ...


class Exchange:
    """The connection calls `arrived`, `ended` and `lost`; the handler takes the body and sends one response."""

    __slots__ = (
        "_connection",
        "_is_chunked",
        "_news",
        "_on_loss",
        "_parts",
        "added_lines",
        "head",
        "is_answered",
        "is_lost",
        "is_whole",
        "status",
        "unread_bytes",
    )

    def __init__(self, head: RequestHead, connection: ExchangeConnection) -> None:
        self.head = head
        self._connection = connection
        self.is_whole = False
        """The whole body has arrived."""
        self.is_lost = False
        """The client went away before it had its response."""
        self.unread_bytes = 0
        """Of the body: has arrived and was not taken yet."""
        self.status = 0
        """Of the response, once it has begun."""
        self.is_answered = False
        """The response was written to its end."""
        self.added_lines = b""
        """Of the head of the response, whatever it is."""
        self._parts: list[bytes] = []
        self._news: asyncio.Future[None] | None = None
        self._on_loss: Callable[[], object] | None = None
        self._is_chunked = False

    @property
    def peer(self) -> str:
        """Address and port of the client."""
        return self._connection.peer

    def arrived(self, part: bytes) -> None:
        self._parts.append(part)
        self.unread_bytes += len(part)
        if self._news is not None:
            self._wake()

    def ended(self) -> None:
        self.is_whole = True
        if self._news is not None:
            self._wake()

    def lost(self) -> None:
        self.is_lost = True
        self._wake()
        if self._on_loss is not None:
            self._on_loss()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.done():
            news.set_result(None)

    def take_whole(self, limit: int) -> bytes | None:
        """The body, if all of it has arrived in one part of at most so many bytes."""
        if not self.is_whole or len(self._parts) != 1 or not 0 < self.unread_bytes <= limit:
            return None
        self.unread_bytes = 0
        return self._parts.pop()

    def take(self) -> bytes:
        """What has arrived of the body since the last time. ClientGone when the rest will never come."""
        if self.is_lost:
            raise ClientGone
        parts = self._parts
        if len(parts) == 1:
            taken = parts.pop()
        else:
            taken, self._parts = b"".join(parts), []
        self.unread_bytes = 0
        if not self.is_whole:
            self._connection.body_taken()
        return taken

    async def more(self) -> None:
        """Returns when more of the body has arrived, or its end, or the client is gone."""
        if self.head.expects_continue and not self._parts:
            self.head.expects_continue = False
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self._parts and not self.is_whole and not self.is_lost:
            self._news = asyncio.get_running_loop().create_future()
            await self._news

    def when_lost(self, call: Callable[[], object] | None) -> None:
        """Calls this when the client goes away; None: nobody wants to know any more."""
        self._on_loss = call

    def respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Sends a whole response. Nothing happens when the client is gone."""
        if self.is_lost:
            return
        head = self._head(status, headers, b"content-length: %d\r\n" % len(body))
        self._connection.write(head if self.head.method == "HEAD" else head + body)
        self._end()

    def respond_early(self, status: int, headers: Headers, body: bytes) -> None:
        """Sends a whole response while the handler goes on: from now on it works for nobody."""
        self.respond(status, headers, body)
        self.lost()

    def begin(self, status: int, headers: Headers, size: int | None = None) -> bool:
        """Begins a response of so many bytes, or of as many as come. False when the client wants no body."""
        if self.is_lost:
            raise ClientGone
        if size is not None:
            length = b"content-length: %d\r\n" % size
        elif self.head.is_old:
            length = b""  # it ends where the connection ends
        else:
            length, self._is_chunked = b"transfer-encoding: chunked\r\n", True
        self._connection.write(self._head(status, headers, length))
        if self.head.method != "HEAD":
            return True
        self._end()
        return False

    async def send(self, part: bytes) -> None:
        """The next part of a response that has begun. Waits until the client has taken those before it."""
        await self._connection.drain()
        if self.is_lost:
            raise ClientGone
        if part:
            self._connection.write(b"%x\r\n%b\r\n" % (len(part), part) if self._is_chunked else part)

    def end(self) -> None:
        """The end of a response that has begun."""
        if self.is_lost:
            raise ClientGone
        if self._is_chunked:
            self._connection.write(b"0\r\n\r\n")
        self._end()

    def abort(self) -> None:
        """The response broke off: the client learns of it from the end of the connection."""
        self._connection.abort()

    def _head(self, status: int, headers: Headers, length: bytes) -> bytes:
        self.status = status
        parts = [_STATUS_LINES[status], self._connection.server.date_line]
        parts += [b"%b: %b\r\n" % header for header in headers]
        if self.added_lines:
            parts.append(self.added_lines)
        parts.append(length)
        if self.head.expects_continue and not self.is_whole:
            self.head.keeps_alive = False  # whether the body comes all the same is the client's choice
        if not self.head.keeps_alive:
            parts.append(b"connection: close\r\n")
        parts.append(b"\r\n")
        return b"".join(parts)

    def _end(self) -> None:
        self.is_answered = True
        self._parts, self.unread_bytes = [], 0
        self._connection.response_ended()

"""HTTP connections with bounds: heads of requests, silent clients, clients that do not read, connections in all."""

import asyncio
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quiver.model.errors import InvalidRequest, Overloaded, QuiverError
from quiver.model.limits import KIB, MIB

MAX_HEAD_BYTES = 64 * KIB
MAX_DISCARDED_BYTES = 256 * MIB
"""The rest of a body that was refused is read and thrown away up to here, so that the client gets to its answer."""
MAX_CONNECTIONS = 10_000


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with limits of ours; `check` is called about once a second."""

    max_connections: ClassVar[int] = MAX_CONNECTIONS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_at = self.loop.time()
        self._in_head = True
        self._head_bytes = 0
        self._discarded_bytes = 0
        self._unread_bytes = 0
        self._unread_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(Overloaded(problem=f"{self.max_connections} HTTP connections are open"))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self.loop.time()
        super().data_received(data)
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                self._refuse(InvalidRequest(problem=f"the request line and headers are over {MAX_HEAD_BYTES} bytes"))

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._discarded_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > MAX_DISCARDED_BYTES:
                self.transport.abort()
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest(problem="this is not HTTP/1.1; if the client uses TLS, turn it off"))

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for an upgrade, which HTTP allows."""

    def _refuse(self, error: QuiverError) -> None:
        """Answers outside of any request, and closes."""
        body = msgspec.json.encode(error.to_dict())
        self.transport.write(
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (error.status, len(body), body)
        )
        self.transport.close()

    def check(self, now: float, silent_s: float, unread_s: float) -> None:
        """Closes a connection that waits for bytes, or for the client to take bytes, for too long."""
        if self.flow.write_paused:
            self._check_reader(now, unread_s)
            return
        self._unread_bytes = 0
        answering = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if not answering and now - self._heard_at > silent_s:
            self.transport.abort()

    def _check_reader(self, now: float, unread_s: float) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread, now
        elif now - self._unread_since > unread_s:
            self.transport.abort()

"""HTTP connections with bounds: heads of requests, silent clients, clients that do not read, connections in all."""

import asyncio
import logging
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from quiver.model.errors import InvalidRequest, Overloaded, QuiverError, SlowClient
from quiver.model.limits import CONNECTIONS, HTTP_DISCARDED_BYTES, HTTP_HEAD_BYTES
from quiver.structures.least_rate import LeastRate
from quiver.system.memory_budget import MemoryBudget

_log = logging.getLogger("quiver.http")


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with our limits; `check` is called about once a second."""

    max_connections: ClassVar[int] = CONNECTIONS
    transport: Any

    def __init__(self, *args: Any, budget: MemoryBudget, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0
        self._head_holding = budget.open()
        self._discarded_bytes = 0
        self._received_bytes = 0
        self._sending, self._taking = LeastRate(), LeastRate()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.transport = _CountingTransport(transport)
        if len(self.connections) > self.max_connections:
            self._refuse(Overloaded(problem=f"{self.max_connections} HTTP connections are open"))

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        super().data_received(data)
        if self._in_head:
            self._check_head(len(data))
        elif self._head_holding.held_bytes:
            self._head_holding.resize(0)

    def _check_head(self, more: int) -> None:
        """Counts a head that is not complete yet."""
        self._head_bytes += more
        if self.transport.is_closing():
            return
        if self._head_bytes > HTTP_HEAD_BYTES:
            self._refuse(InvalidRequest(problem=f"the request line and headers are over {HTTP_HEAD_BYTES} bytes"))
            return
        try:
            self._head_holding.take(self._head_bytes - self._head_holding.held_bytes)
        except Overloaded as error:
            self._refuse(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_holding.close()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._discarded_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self.cycle.response_complete:
            self._discarded_bytes += len(body)
            if self._discarded_bytes > HTTP_DISCARDED_BYTES:
                self.transport.abort()
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:
        self._refuse(InvalidRequest(problem="this is not HTTP/1.1; if the client uses TLS, turn it off"))

    def _unsupported_upgrade_warning(self) -> None:
        """The request is answered as if it had not asked for an upgrade, which HTTP allows."""

    def _refuse(self, error: QuiverError) -> None:
        """Sends a response that belongs to no request, and closes."""
        body = msgspec.json.encode(error.to_dict())
        self.transport.write(
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (error.status, len(body), body)
        )
        self.transport.close()

    def check(self, now: float, span_s: float, least_bytes_per_s: float) -> None:
        """Closes a connection whose client sends its request, or takes its response, too slowly."""

        def is_slow(rate: LeastRate, count: int, *, due: bool) -> bool:
            return rate.is_missed(now, count, due=due, span_seconds=span_s, per_second=least_bytes_per_s)

        least = f"{least_bytes_per_s:g} bytes per second for {span_s:g} s"
        transport = self.transport
        taken = transport.written_bytes - transport.get_write_buffer_size()
        if is_slow(self._taking, taken, due=self.flow.write_paused):
            _log.warning("disconnected %s: it took its response more slowly than %s", self._peer, least)
            transport.abort()
        elif is_slow(self._sending, self._received_bytes, due=self._waits_for_bytes):
            self._drop_sender(least)

    @property
    def _waits_for_bytes(self) -> bool:
        """A request, or the rest of one, has to come from the client."""
        if self.flow.write_paused or self.flow.read_paused:
            return False
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _drop_sender(self, least: str) -> None:
        is_begun = self._head_bytes > 0 if self._in_head else not self.cycle.response_started
        if is_begun and not self.transport.is_closing():
            _log.warning("disconnected %s: it sent a request more slowly than %s", self._peer, least)
            self._refuse(SlowClient(what="the request", rate=least))
        else:
            self.transport.abort()

    @property
    def _peer(self) -> str:
        return "a client" if self.client is None else f"{self.client[0]}:{self.client[1]}"


class _CountingTransport:
    """A transport that knows how much was written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.written_bytes = 0

    def write(self, data: bytes) -> None:
        self.written_bytes += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

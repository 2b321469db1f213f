"""A connection: requests are read one after the other, and answered in the same order."""

import asyncio
import logging
from collections import deque
from typing import Any, Protocol

import httptools
import msgspec

from quiver.gateways.http.wire.exchange import Exchange, RequestHead
from quiver.model.errors import InvalidRequest, Overloaded, QuiverError, SlowClient
from quiver.model.limits import HTTP_DISCARDED_BYTES, HTTP_HEAD_BYTES, HTTP_IDLE_SECONDS, KIB
from quiver.structures.least_rate import LeastRate
from quiver.system.memory_budget import MemoryBudget

_log = logging.getLogger("quiver.http")

_SLICE_BYTES = 16 * KIB
"""What arrived is parsed in slices of this size, so that it can be left unparsed while enough requests wait."""
_MOST_WAITING = 16
_WAITING_BYTES = KIB
"""What a request counts for that waits for the response to an earlier one."""
_UNREAD_BYTES = 64 * KIB
"""No more of a body is read while its handler has not taken this much."""


class Server(Protocol):
    """Who serves the requests of a connection."""

    budget: MemoryBudget
    date_line: bytes

    def opened(self, connection: "HttpConnection") -> QuiverError | None:
        """An error if there are too many connections."""

    def closed(self, connection: "HttpConnection") -> None: ...

    def serve(self, exchange: Exchange) -> None:
        """Begins to handle a request."""


class HttpConnection(asyncio.Protocol):
    """Parses with llhttp. `check` is called about once a second.

    A request that can be read no further is refused when the requests before it have their responses.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: Any = None
        self.peer = "unknown"
        self._holding = server.budget.open()
        """An incomplete head, what is not parsed yet, and requests that wait."""
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._in_head, self._head_bytes, self._slice_bytes = True, 0, 0
        self._unparsed: memoryview | None = None
        self._incoming: Exchange | None = None
        """The request whose head came last."""
        self._waiting: deque[Exchange] = deque()
        self._current: Exchange | None = None
        """The request that is being handled."""
        self._is_last = False
        """The client sends nothing after the request that came last."""
        self._refusal: QuiverError | None = None
        self._is_advancing = self._is_stopping = False
        self._is_reading = self._is_writable = True
        self._drained: asyncio.Future[None] | None = None
        self._idle_since: float | None = None
        self._received_bytes = self._written_bytes = self._discarded_bytes = 0
        self._sending, self._taking = LeastRate(), LeastRate()

    # what the transport reports

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        address = transport.get_extra_info("peername")
        if address:
            self.peer = f"{address[0]}:{address[1]}"
        refusal = self.server.opened(self)
        if refusal is not None:
            self._refuse(refusal)

    def connection_lost(self, error: Exception | None) -> None:
        self._holding.close()
        self._waiting.clear()
        self._unparsed = self._parser = self._incoming = None
        self._lose_current()
        self.resume_writing()
        self.server.closed(self)

    def _lose_current(self) -> None:
        """Its handler need not go on: the response cannot be sent any more."""
        current, self._current = self._current, None
        if current is not None:
            current.lost()

    def data_received(self, data: bytes) -> None:
        self._received_bytes += len(data)
        if self._unparsed is not None:
            self._unparsed = memoryview(bytes(self._unparsed) + data)
        elif len(data) > _SLICE_BYTES:
            self._unparsed = memoryview(data)
        else:
            self._parse(data)
        self._advance()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._advance()

    # requests

    def _advance(self) -> None:
        """Starts the next request and parses more, as far as that is possible now."""
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while not self._transport.is_closing():
                if self._waiting and self._current is None and self._is_writable:
                    self._current = self._waiting.popleft()
                    self.server.serve(self._current)
                elif self._unparsed is not None and self._may_parse:
                    part, rest = self._unparsed[:_SLICE_BYTES], self._unparsed[_SLICE_BYTES:]
                    self._unparsed = rest if rest else None
                    self._parse(part)
                else:
                    break
        finally:
            self._is_advancing = False
        if not self._is_settled:
            self._settle_down()

    @property
    def _may_parse(self) -> bool:
        if self._refusal is not None or len(self._waiting) >= _MOST_WAITING:
            return False
        return self._incoming is None or self._incoming.unread_bytes <= _UNREAD_BYTES

    @property
    def _is_settled(self) -> bool:
        """Whether there is nothing out of the ordinary: nothing waits, is counted, or keeps the connection from
        reading."""
        return (
            self._is_reading
            and not self._in_head
            and not self._waiting
            and self._unparsed is None
            and self._refusal is None
            and not self._holding.held_bytes
            and self._incoming is not None
            and self._incoming.unread_bytes <= _UNREAD_BYTES
        )

    def _settle_down(self) -> None:
        """Nothing more can be done until something arrives or is answered."""
        if self._transport.is_closing():
            return
        self._count_held()
        if self._refusal is not None and self._current is None and not self._waiting:
            self._refuse(self._refusal)
            return
        is_reading = self._unparsed is None and self._may_parse
        if is_reading is not self._is_reading:
            self._is_reading = is_reading
            if is_reading:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _count_held(self) -> None:
        size = len(self._waiting) * _WAITING_BYTES
        if self._in_head:
            size += self._head_bytes
        if self._unparsed is not None:
            size += len(self._unparsed)
        more = size - self._holding.held_bytes
        if more <= 0:
            if more:
                self._holding.resize(size)
            return
        try:
            self._holding.take(more)
        except Overloaded as error:
            self._stop_at(error)
            self._waiting.clear()

    def _parse(self, data: "bytes | memoryview") -> None:
        if self._is_last and (self._incoming is None or self._incoming.is_whole):
            return
        self._slice_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # The response to the request declines the upgrade, which HTTP allows: what follows is HTTP.
            rest = data[upgrade.args[0] :]
            if rest:
                self._parse(rest)
            return
        except httptools.HttpParserError:
            if not self._is_last or (self._incoming is not None and not self._incoming.is_whole):
                self._stop_at(InvalidRequest(problem="this is not HTTP/1.1; if the client uses TLS, turn it off"))
            return
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HTTP_HEAD_BYTES:
                self._stop_at(
                    InvalidRequest(problem=f"the request line and headers are over {HTTP_HEAD_BYTES} bytes")
                )

    def _stop_at(self, error: QuiverError) -> None:
        """Refuses what cannot be read any further, after the responses to the requests before it."""
        if self._refusal is not None:
            return
        self._refusal = error
        self._unparsed = None
        broken = self._incoming
        if broken is None or broken.is_whole:
            return
        if broken.status:
            self._transport.abort()
        elif broken is self._current:
            self._refuse(error)
        else:
            self._waiting.remove(broken)

    # what the parser reports

    def on_message_begin(self) -> None:
        self._url, self._headers = b"", {}
        self._in_head, self._head_bytes = True, 0
        self._idle_since = None

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        parser, url, headers = self._parser, self._url, self._headers
        path, _, query = url.partition(b"?")
        if path[:1] != b"/" or b"#" in url:
            parsed = httptools.parse_url(url)
            path, query = parsed.path or b"/", parsed.query or b""
        head = RequestHead(parser.get_method().decode("ascii"), path.decode("ascii"), query, headers)
        head.size_bytes = self._head_bytes + self._slice_bytes
        version = parser.get_http_version()
        if version == "1.0":
            head.is_old, head.keeps_alive = True, False
        elif version != "1.1":
            raise ValueError(version)  # the parser makes an error of it
        elif not parser.should_keep_alive():
            head.keeps_alive = False
        if b"expect" in headers and not head.is_old:
            head.expects_continue = headers[b"expect"].lower() == b"100-continue"
        self._is_last = not head.keeps_alive
        self._in_head, self._head_bytes, self._discarded_bytes = False, 0, 0
        self._incoming = Exchange(head, self)
        self._waiting.append(self._incoming)

    def on_body(self, body: bytes) -> None:
        incoming = self._incoming
        if incoming is None:
            return
        if not incoming.is_answered:
            incoming.arrived(body)
            return
        self._discarded_bytes += len(body)
        if self._discarded_bytes > HTTP_DISCARDED_BYTES:
            self._transport.abort()

    def on_message_complete(self) -> None:
        if self._incoming is not None:
            self._incoming.ended()
            if self._incoming.is_answered:
                self._idle_since = self._loop.time()

    # responses

    def write(self, data: bytes) -> None:
        self._written_bytes += len(data)
        self._transport.write(data)

    async def drain(self) -> None:
        if not self._is_writable:
            self._drained = self._loop.create_future()
            await self._drained

    def body_taken(self) -> None:
        if not self._is_reading or self._unparsed is not None:
            self._advance()

    def response_ended(self) -> None:
        current, self._current = self._current, None
        if self._is_stopping or (current is not None and not current.head.keeps_alive):
            self._transport.close()
            return
        self._idle_since = self._loop.time()
        if self._waiting or self._unparsed is not None or self._refusal is not None or not self._is_reading:
            self._advance()

    def _refuse(self, error: QuiverError) -> None:
        """Sends a response that belongs to no request, and closes."""
        body = msgspec.json.encode(error.to_dict())
        self.write(
            b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n%b" % (error.status, len(body), body)
        )
        self._transport.close()
        self._lose_current()

    # its end

    def abort(self) -> None:
        self._transport.abort()

    def stop(self) -> None:
        """Takes no more requests; the one that is being handled gets its response."""
        self._is_stopping = True
        self._waiting.clear()
        self._unparsed = None
        if self._current is None:
            self._transport.close()
        else:
            self._current.head.keeps_alive = False

    def check(self, now: float, span_s: float, least_bytes_per_s: float) -> None:
        """Closes an idle connection, and one whose client sends its request, or takes its response, too slowly."""

        def is_slow(rate: LeastRate, count: int, *, due: bool) -> bool:
            return rate.is_missed(now, count, due=due, span_seconds=span_s, per_second=least_bytes_per_s)

        least = f"{least_bytes_per_s:g} bytes per second for {span_s:g} s"
        taken = self._written_bytes - self._transport.get_write_buffer_size()
        if is_slow(self._taking, taken, due=not self._is_writable or self._transport.is_closing()):
            _log.warning("disconnected %s: it took its response more slowly than %s", self.peer, least)
            self._transport.abort()
        elif self._is_idle and self._idle_since is not None and now - self._idle_since >= HTTP_IDLE_SECONDS:
            self._transport.close()
        elif is_slow(self._sending, self._received_bytes, due=self._waits_for_bytes):
            self._drop_sender(least)

    @property
    def _is_idle(self) -> bool:
        """Every request that came has its response."""
        return self._current is None and not self._waiting and (self._incoming is None or self._incoming.is_whole)

    @property
    def _waits_for_bytes(self) -> bool:
        """The first request, or the rest of one, has to come from the client: between two of them it is idle."""
        if not self._is_writable or not self._is_reading:
            return False
        if self._incoming is not None and not self._incoming.is_whole:
            return True
        return self._in_head and self._current is None and not self._waiting

    def _drop_sender(self, least: str) -> None:
        incoming = self._incoming
        is_begun = self._head_bytes > 0 if self._in_head else incoming is not None and not incoming.status
        if is_begun and not self._transport.is_closing():
            _log.warning("disconnected %s: it sent a request more slowly than %s", self.peer, least)
            self._stop_at(SlowClient(what="the request", rate=least))
            self._settle_down()
        else:
            self._transport.abort()

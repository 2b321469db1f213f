"""One client: packets in, requests begun in order, answers out as they are ready."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from quiver.broker.broker import Broker
from quiver.gateways.native.fetching import fetch_slices
from quiver.gateways.native.handshake import welcome
from quiver.gateways.native.outbox import Outbox
from quiver.gateways.native.requests import answer_request
from quiver.gateways.native.settings import NativeCounts, NativeSettings
from quiver.model.errors import InvalidRequest, ProtocolError, QuiverError, ShuttingDown
from quiver.model.limits import KIB, Limits
from quiver.protocol.failure import failure_of
from quiver.protocol.messages import (
    ACKS_ALL,
    ACKS_LEADER,
    ACKS_NONE,
    Fetch,
    Hello,
    Message,
    Produce,
    Produced,
    Request,
)
from quiver.protocol.packet import NO_CORRELATION, Packet, PacketReader, decode_request, encode_packet
from quiver.storage.port import FrameSlice

if TYPE_CHECKING:
    from quiver.partition.partition import Appended

logger = logging.getLogger(__name__)

_ACKS = (ACKS_NONE, ACKS_LEADER, ACKS_ALL)


def _uncleared(size: int) -> memoryview:
    """Memory that the kernel hands out page by page as bytes arrive, so that a mere length field costs none."""
    return memoryview(np.empty(size, np.uint8))


class Connection:
    """Lives from construction (inside the running loop) until `on_closed`.

    Phases: open, then either finishing (nothing more is read; what was begun is answered, then it lingers until the
    client hangs up) or closed at once by `abort`.
    """

    def __init__(
        self,
        sock: socket.socket,
        broker: Broker,
        *,
        peer: str,
        limits: Limits,
        settings: NativeSettings,
        counts: NativeCounts,
        on_closed: Callable[["Connection"], None],
    ) -> None:
        self.peer = peer
        self._sock, self._fd = sock, sock.fileno()
        self._broker, self._limits, self._settings, self._counts = broker, limits, settings, counts
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._reader = PacketReader(
            limits.request_bytes,
            max_message_bytes=settings.message_bytes,
            expect_preface=True,
            allocate=_uncleared,
        )
        self._buffer = self._reader.get_buffer()
        self._outbox = Outbox(sock, counts, on_sent=self._on_sent, on_broken=self.abort)
        self._waiting: deque[Packet] = deque()
        self._in_flight = self._in_flight_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._fetches: set[asyncio.Task[None]] = set()
        self._greeted = self._finishing = self._lingering = self._closed = False
        self._reading = False
        self._last_heard = self._opened = self._loop.time()
        self._linger_until = 0.0
        self._resume()

    # Reading

    def _resume(self) -> None:
        if not self._reading:
            self._reading = True
            self._last_heard = self._loop.time()
            self._loop.add_reader(self._fd, self._on_readable)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _on_readable(self) -> None:
        try:
            count = self._sock.recv_into(self._buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.abort(error.strerror or str(error))
            return
        if count == 0:
            self._on_hangup()
            return
        self._last_heard = self._loop.time()
        self._counts.bytes_received += count
        if self._lingering:
            return
        try:
            self._waiting.extend(self._reader.received(count))
            self._begin_waiting()
            self._buffer = self._reader.get_buffer()
        except QuiverError as error:
            self._refuse(error)

    def _on_hangup(self) -> None:
        if self._lingering:
            self.abort("closed")
        elif self._greeted:
            self.finish()
        else:
            self.abort("hung up before the handshake")

    @property
    def _is_full(self) -> bool:
        settings = self._settings
        return (
            self._in_flight >= settings.requests_in_flight
            or self._in_flight_bytes >= settings.request_bytes_in_flight
            or self._outbox.queued_bytes >= settings.answer_bytes_queued
        )

    def _begin_waiting(self) -> None:
        """Begins what was received as far as the bounds allow; the rest waits, and reading with it."""
        while self._waiting and not self._finishing:
            if self._is_full:
                self._pause()
                return
            self._begin(self._waiting.popleft())

    def _on_room(self) -> None:
        if self._closed or self._lingering:
            return
        if self._finishing:
            if not self._in_flight and self._outbox.is_empty:
                self._linger()
        elif not self._reading and not self._is_full:
            self._begin_waiting()
            if not self._waiting and not self._is_full and not self._finishing:
                self._resume()

    # Requests

    def _begin(self, packet: Packet) -> None:
        correlation = packet.correlation
        self._counts.requests += 1
        try:
            request = decode_request(packet.message_bytes)
            if not self._greeted:
                self._greet(correlation, request)
            elif isinstance(request, Produce):
                self._produce(correlation, request, packet.payload)
            elif packet.payload:
                raise ProtocolError(problem=f"{type(request).__name__} carries no payload")
            elif isinstance(request, Hello):
                raise ProtocolError(problem="Hello was sent twice")
            else:
                self._start(correlation, request)
        except QuiverError as error:
            if not self._greeted:
                self._refuse(error, correlation)
            else:
                self._fail(correlation, error)

    def _greet(self, correlation: int, request: Request) -> None:
        if not isinstance(request, Hello):
            raise ProtocolError(problem=f"a connection begins with Hello, not with {type(request).__name__}")
        self._answer(correlation, welcome(request, self._broker.node_id, self._limits))
        self._greeted = True

    def _produce(self, correlation: int, request: Produce, frame: memoryview) -> None:
        wanted = request.acks != ACKS_NONE
        try:
            if request.acks not in _ACKS:
                raise InvalidRequest(problem=f"acks {request.acks} is not one of 0, 1 and -1")
            appended = self._broker.produce(
                request.topic_id, request.partition, frame, partition_count=request.partition_count
            )
        except Exception as error:
            if wanted:
                self._fail(correlation, error)
            return
        self._in_flight += 1
        self._in_flight_bytes += len(frame)
        appended.add_done_callback(partial(self._on_produced, correlation if wanted else None, len(frame)))

    def _on_produced(self, correlation: int | None, size: int, appended: "asyncio.Future[Appended]") -> None:
        self._in_flight -= 1
        self._in_flight_bytes -= size
        error = ShuttingDown() if appended.cancelled() else appended.exception()
        if correlation is not None and not self._closed:
            if error is not None:
                self._fail(correlation, error)
            else:
                result = appended.result()
                self._answer(correlation, Produced(result.base_offset, result.append_time_ms, result.duplicate))
        self._on_room()

    def _start(self, correlation: int, request: Request) -> None:
        self._in_flight += 1
        if isinstance(request, Fetch):
            task = self._loop.create_task(self._fetch(correlation, request))
            self._fetches.add(task)
        else:
            task = self._loop.create_task(self._carry_out(correlation, request))
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._fetches.discard(task)
        self._in_flight -= 1
        self._on_room()

    async def _fetch(self, correlation: int, request: Fetch) -> None:
        try:
            answer, slices = await fetch_slices(self._broker, request, self._settings)
        except asyncio.CancelledError:
            self._fail(correlation, ShuttingDown())
        except Exception as error:
            self._fail(correlation, error)
        else:
            self._answer(correlation, answer, slices)

    async def _carry_out(self, correlation: int, request: Request) -> None:
        try:
            answer = await answer_request(self._broker, request)
        except Exception as error:
            self._fail(correlation, error)
        else:
            self._answer(correlation, answer)

    # Answers

    def _answer(self, correlation: int, message: Message, slices: tuple[FrameSlice, ...] = ()) -> None:
        self._outbox.put(encode_packet(correlation, message, sum(part.length for part in slices)), slices)

    def _fail(self, correlation: int, error: BaseException) -> None:
        self._counts.failures += 1
        if not isinstance(error, QuiverError):
            logger.error("a request from %s failed unexpectedly", self.peer, exc_info=error)
        self._answer(correlation, failure_of(error))

    def _on_sent(self) -> None:
        self._on_room()

    # The end

    def _refuse(self, error: QuiverError, correlation: int | None = None) -> None:
        """Answers an error behind which the stream cannot be read on, then finishes."""
        logger.info("refused %s: %s", self.peer, error)
        if correlation is None:
            correlation = error.details.get("correlation", NO_CORRELATION)
        self._fail(correlation, error)
        self.finish()

    def finish(self) -> None:
        """Reads no more, answers what was begun, and closes when the client has taken the answers."""
        if self._finishing or self._closed:
            return
        self._finishing = True
        self._pause()
        for packet in self._waiting:
            self._fail(packet.correlation, ShuttingDown())
        self._waiting.clear()
        for task in self._fetches:
            task.cancel()
        self._on_room()

    def _linger(self) -> None:
        """Waits for the client to hang up: closing with unread bytes would reset the connection under its answers."""
        self._lingering = True
        self._linger_until = self._loop.time() + self._settings.linger_seconds
        self._buffer = memoryview(bytearray(64 * KIB))
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.abort(error.strerror or str(error))
            return
        self._resume()

    def abort(self, reason: str) -> None:
        """Closes at once. Requests that the broker has taken are carried out; their answers are dropped."""
        if self._closed:
            return
        self._closed = True
        logger.debug("connection with %s ends: %s", self.peer, reason)
        self._pause()
        self._outbox.close()
        for task in self._fetches:
            task.cancel()
        self._waiting.clear()
        self._sock.close()
        self._on_closed(self)

    def check_deadlines(self, now: float) -> None:
        """Disconnects a client that keeps the broker waiting for too long."""
        stall = self._settings.stall_seconds
        blocked_since = self._outbox.blocked_since
        if self._lingering:
            if now >= self._linger_until:
                self.abort("the client did not hang up")
        elif blocked_since is not None and now - blocked_since > stall:
            self._drop(f"took no answers for {stall:g} s")
        elif not self._greeted and now - self._opened > self._settings.handshake_seconds:
            self._refuse(ProtocolError(problem=f"no handshake within {self._settings.handshake_seconds:g} s"))
        elif self._reading and not self._reader.is_between_packets and now - self._last_heard > stall:
            self._drop(f"sent half a request and nothing more for {stall:g} s")

    def _drop(self, what: str) -> None:
        self._counts.clients_stalled += 1
        logger.warning("disconnected %s: it %s", self.peer, what)
        self.abort(what)

"""A link to another worker: calls on their way, and a new connection when one breaks."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from quiver.links.packet_stream import PacketStream
from quiver.links.request import PeerRequest, R, Reply, result_decoder
from quiver.model.errors import Overloaded, ProtocolError, QuiverError, ShuttingDown, WorkerUnavailable
from quiver.model.limits import MIB
from quiver.protocol.link_messages import (
    LinkCall,
    LinkCancel,
    LinkFailure,
    LinkHello,
    LinkPing,
    LinkPong,
    LinkResult,
    decode_link_message,
    link_error,
)
from quiver.protocol.packet import NO_CORRELATION, Buffer, Packet, encode_packet
from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

REQUEST_BYTES = 64 * MIB
"""Of calls that have no response yet; beyond it, more calls wait."""
PING_SECONDS, SILENT_PINGS = 1.0, 5
"""While calls have no response, the other worker is asked so often whether it runs, and given up after so many pings
without a word. They are counted, so that a pause of this process is not taken for one of the other."""
_PING = encode_packet(NO_CORRELATION, LinkPing())
_LAST_CORRELATION = 2**32 - 1
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 1.0
_encode = msgspec.msgpack.Encoder().encode

Dial = Callable[[int], Awaitable[socket.socket]]
"""A connected stream socket to a worker; OSError when that fails."""
OnLate = Callable[[Reply[Any]], None]
"""Gets a result that comes after its caller was cancelled."""


class _Call:
    __slots__ = ("future", "kind", "on_late", "size")

    def __init__(
        self, kind: type[PeerRequest[Any]], size: int, future: "asyncio.Future[Any]", on_late: OnLate | None
    ) -> None:
        self.kind, self.size, self.future, self.on_late = kind, size, future, on_late


class OutgoingLink:
    """Calls leave in the order of `begin`. When the connection breaks, calls without a response fail; those that are
    begun after that wait for the next connection.
    """

    def __init__(self, worker: int, target: int, dial: Dial, revision: Callable[[], int]) -> None:
        self.target = target
        self._hello = encode_packet(NO_CORRELATION, LinkHello(worker))
        self._dial, self._revision = dial, revision
        self._stream: PacketStream | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._not_before = 0.0
        """The time of the loop at which it may connect again."""
        self._calls: dict[int, _Call] = {}
        self._unsent: list[tuple[bytes, Sequence[Buffer]]] = []
        self._unsent_bytes = 0
        self._last_correlation = NO_CORRELATION
        self._call_bytes = 0
        self._awaiting_room: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._is_ending = False
        """The whole broker stops: whoever is gone is not followed by another."""
        self._pinging: asyncio.TimerHandle | None = None
        self._silent_pings = 0
        """Since something was heard of the other worker."""

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    async def room(self) -> None:
        """Returns when another call may be begun; first come, first served."""
        while self._call_bytes >= REQUEST_BYTES and not self._is_closed:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._awaiting_room.append(waiting)
            await waiting

    def begin(
        self, request: PeerRequest[R], payload: Sequence[Buffer] = (), on_late: OnLate | None = None
    ) -> "asyncio.Future[Reply[R]]":
        """Queues a call before it returns. Overloaded when too many bytes are on their way."""
        if self._is_closed:
            raise ShuttingDown()
        if self._call_bytes >= REQUEST_BYTES:
            raise Overloaded(problem=f"{self._call_bytes} bytes wait for worker {self.target}")
        if self._is_ending and self._stream is None:
            raise WorkerUnavailable(worker=self.target, problem="has stopped")
        correlation = self._next_correlation()
        size = self._send(correlation, request, payload)
        future: asyncio.Future[Reply[R]] = asyncio.get_running_loop().create_future()
        self._calls[correlation] = _Call(type(request), size, future, on_late)
        self._call_bytes += size
        if self._pinging is None:
            self._silent_pings = 0
            self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)
        future.add_done_callback(partial(self._on_done, correlation))
        return future

    def tell(self, request: PeerRequest[Any], payload: Sequence[Buffer] = ()) -> None:
        """A call that nobody waits for; it is lost if the connection breaks before it has arrived."""
        queued = self._unsent_bytes if self._stream is None else self._stream.queued_bytes
        is_gone = self._is_closed or (self._is_ending and self._stream is None)
        if not is_gone and queued < REQUEST_BYTES:
            self._send(NO_CORRELATION, request, payload)
        else:
            logger.warning("%s.%s for worker %d was dropped", request.capability, request.method, self.target)

    def end(self) -> None:
        """All workers are being stopped: calls go on, but to nobody who has stopped already."""
        self._is_ending = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._fail_all("has stopped")

    def close(self) -> None:
        """Calls without a response fail."""
        self._is_closed = True
        if self._pinging is not None:
            self._pinging.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._fail_all("is no longer called: this worker stops")

    def _next_correlation(self) -> int:
        while True:
            self._last_correlation = self._last_correlation % _LAST_CORRELATION + 1
            if self._last_correlation not in self._calls:
                return self._last_correlation

    def _send(self, correlation: int, request: PeerRequest[Any], payload: Sequence[Buffer]) -> int:
        arguments = msgspec.Raw(_encode(request))
        payload_bytes = sum([memoryview(part).nbytes for part in payload])
        call = LinkCall(request.capability, request.method, self._revision(), arguments)
        packet = encode_packet(correlation, call, payload_bytes)
        if self._stream is not None:
            self._stream.send(packet, payload)
        else:
            self._unsent.append((packet, payload))
            self._unsent_bytes += len(packet) + payload_bytes
            self._connect()
        return len(packet) + payload_bytes

    def _on_done(self, correlation: int, future: "asyncio.Future[Any]") -> None:
        """Also when the caller was cancelled: then the other worker is told, and its last word is waited for."""
        if future.cancelled() and correlation in self._calls and self._stream is not None:
            self._stream.send(encode_packet(correlation, LinkCancel()))

    def _connect(self) -> None:
        if self._connecting is None and not self._is_closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect_until_done())

    async def _connect_until_done(self) -> None:
        try:
            while True:
                pause = self._not_before - asyncio.get_running_loop().time()
                if pause > 0:
                    await asyncio.sleep(pause)
                try:
                    sock = await self._dial(self.target)
                except OSError as error:
                    self._pause()
                    self._fail_all(f"cannot be reached ({error.strerror or error})")
                else:
                    break
        finally:
            self._connecting = None
        self._use(PacketStream(sock, on_packet=self._on_packet, on_broken=self._on_broken))

    def _use(self, stream: PacketStream) -> None:
        self._stream = stream
        self._silent_pings = 0
        stream.send(self._hello)
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        for packet, payload in unsent:
            stream.send(packet, payload)
        for correlation, call in self._calls.items():
            if call.future.cancelled():
                stream.send(encode_packet(correlation, LinkCancel()))

    def _ping(self) -> None:
        """A worker that is stopped or hangs keeps its connections: it is given up because nothing is heard of it."""
        self._pinging = None
        if not self._calls:
            return
        self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)
        if self._stream is None:
            return
        if self._silent_pings >= (1 if self._is_ending else SILENT_PINGS):
            self._stream.close()
            self._on_broken(f"has not responded for {self._silent_pings * PING_SECONDS:g} s")
        else:
            self._silent_pings += 1
            self._stream.send(_PING)

    def _on_broken(self, reason: str) -> None:
        logger.info("the link to worker %d broke: it %s", self.target, reason)
        self._stream = None
        self._pause()
        self._fail_all(reason)

    def _pause(self) -> None:
        self._not_before = asyncio.get_running_loop().time() + self._backoff.next_seconds()

    def _fail_all(self, problem: str) -> None:
        self._unsent, self._unsent_bytes = [], 0
        calls, self._calls = self._calls, {}
        self._call_bytes = 0
        for call in calls.values():
            if not call.future.done():
                call.future.set_exception(WorkerUnavailable(worker=self.target, problem=problem))
        self._wake()

    def _on_packet(self, packet: Packet) -> None:
        self._backoff.reset()
        self._silent_pings = 0
        if packet.correlation == NO_CORRELATION and isinstance(decode_link_message(packet.message_bytes), LinkPong):
            return
        call = self._calls.pop(packet.correlation, None)
        if call is None:
            raise ProtocolError(problem=f"worker {self.target} sent a result for no call")
        self._call_bytes -= call.size
        self._wake()
        message = decode_link_message(packet.message_bytes)
        if isinstance(message, LinkResult):
            self._end(call, message, packet.payload)
        elif not isinstance(message, LinkFailure):
            raise ProtocolError(problem=f"{type(message).__name__} is not expected from worker {self.target}")
        elif not call.future.done():
            call.future.set_exception(link_error(message))

    def _end(self, call: _Call, message: LinkResult, payload: memoryview) -> None:
        try:
            value = result_decoder(call.kind).decode(message.value)
        except msgspec.MsgspecError as problem:
            if not call.future.done():
                call.future.set_exception(ProtocolError(problem=f"a result cannot be read: {problem}"))
            return
        reply = Reply(value, (payload,) if payload else ())
        if not call.future.done():
            call.future.set_result(reply)
        elif call.on_late is not None:
            try:
                call.on_late(reply)
            except QuiverError:
                logger.warning("a late result of worker %d was not used", self.target, exc_info=True)

    def _wake(self) -> None:
        while self._awaiting_room and (self._call_bytes < REQUEST_BYTES or self._is_closed):
            waiting = self._awaiting_room.popleft()
            if not waiting.done():
                waiting.set_result(None)
                if not self._is_closed:
                    return

"""A link from another worker: its calls are begun in the order in which they come."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec

from quiver.links.packet_stream import PacketStream
from quiver.links.request import Handler, Handlers, PeerRequest, Reply
from quiver.model.errors import ProtocolError, QuiverError, ShuttingDown
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
    link_failure,
)
from quiver.protocol.packet import NO_CORRELATION, Packet, encode_packet

logger = logging.getLogger(__name__)

RESPONSE_BYTES = 64 * MIB
"""Responses that the caller has not read; beyond it no more calls are read."""
_PONG = encode_packet(NO_CORRELATION, LinkPong())
_CANCELLED = LinkFailure("cancelled", "the caller no longer waits", True, {})
_SHUTTING_DOWN = link_failure(ShuttingDown())
_encode = msgspec.msgpack.Encoder().encode


class MetadataView(Protocol):
    """What a worker knows of topics and groups, and how far that is."""

    @property
    def revision(self) -> int: ...

    async def reached(self, revision: int) -> None:
        """Returns when the view is as far."""
        ...


class NoView:
    """For calls that have nothing to do with metadata."""

    revision = 0

    async def reached(self, revision: int) -> None:
        return


class IncomingLink:
    def __init__(
        self, sock: socket.socket, handlers: Handlers, view: MetadataView, on_closed: Callable[["IncomingLink"], None]
    ) -> None:
        self._handlers, self._view, self._on_closed = handlers, view, on_closed
        self._caller = -1
        self._calls: deque[tuple[int, LinkCall, memoryview]] = deque()
        """Those that were not begun: the view is not as far as the first of them needs it."""
        self._waiting: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._cancellable: dict[int, asyncio.Task[None]] = {}
        self._is_ending = False
        self._stream = PacketStream(
            sock, on_packet=self._on_packet, on_broken=self._on_broken, on_sent=self._stream_has_room
        )

    async def close(self, grace_seconds: float) -> None:
        """Ends what only waits, and finishes what was begun, as far as there is time."""
        self._end_waiting()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=grace_seconds)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)  # responses of those that have just ended leave in this turn
        self._stream.close()
        self._on_closed(self)

    def _on_packet(self, packet: Packet) -> None:
        message = decode_link_message(packet.message_bytes)
        if isinstance(message, LinkCall):
            if not self._handlers.needs_view(message.capability, message.method):
                self._begin(packet.correlation, message, packet.payload)
                return
            self._calls.append((packet.correlation, message, packet.payload))
            if self._waiting is None:
                self._begin_calls()
        elif isinstance(message, LinkPing):
            self._stream.send(_PONG)
        elif isinstance(message, LinkCancel):
            self._cancel(packet.correlation)
        elif isinstance(message, LinkHello) and self._caller < 0:
            self._caller = message.worker
        else:
            raise ProtocolError(problem=f"{type(message).__name__} is not expected from worker {self._caller}")

    def _begin_calls(self) -> None:
        while self._calls:
            correlation, call, payload = self._calls[0]
            if call.revision > self._view.revision:
                self._waiting = asyncio.get_running_loop().create_task(self._await_revision(call.revision))
                return
            self._calls.popleft()
            self._begin(correlation, call, payload)

    async def _await_revision(self, revision: int) -> None:
        try:
            await self._view.reached(revision)
        except QuiverError as error:
            correlation, _, _ = self._calls.popleft()
            self._fail(correlation, error)
        self._waiting = None
        if not self._stream.is_closed:
            self._begin_calls()

    def _begin(self, correlation: int, call: LinkCall, payload: memoryview) -> None:
        try:
            request, handle = self._handlers.find(call.capability, call.method, call.arguments)
        except QuiverError as error:
            self._fail(correlation, error)
            return
        task = asyncio.get_running_loop().create_task(self._carry_out(correlation, request, handle, payload))
        self._tasks[task] = correlation
        if request.only_waits and correlation != NO_CORRELATION:
            self._cancellable[correlation] = task
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._cancellable.pop(self._tasks.pop(task), None)

    async def _carry_out(
        self, correlation: int, request: "PeerRequest[object]", handle: Handler, payload: memoryview
    ) -> None:
        try:
            self._respond(correlation, await handle(request, payload))
        except asyncio.CancelledError:
            # What does not only wait is never ended for its caller: something that it needed has stopped here.
            is_asked_for = request.only_waits and not self._is_ending
            self._send(correlation, encode_packet(correlation, _CANCELLED if is_asked_for else _SHUTTING_DOWN))
            raise
        except Exception as error:
            self._fail(correlation, error)

    def _respond(self, correlation: int, reply: "Reply[object]") -> None:
        if correlation == NO_CORRELATION:
            return
        size = sum([len(memoryview(part).cast("B")) for part in reply.payload])
        packet = encode_packet(correlation, LinkResult(msgspec.Raw(_encode(reply.value))), size)
        self._stream.send(packet, reply.payload)
        if self._stream.queued_bytes > RESPONSE_BYTES:
            self._stream.pause()

    def _fail(self, correlation: int, error: BaseException) -> None:
        if not isinstance(error, QuiverError):
            logger.error("a call of worker %d failed unexpectedly", self._caller, exc_info=error)
        elif correlation == NO_CORRELATION:
            logger.info("a call of worker %d that waits for nothing failed: %s", self._caller, error)
        self._send(correlation, encode_packet(correlation, link_failure(error)))

    def _send(self, correlation: int, packet: bytes) -> None:
        if correlation != NO_CORRELATION:
            self._stream.send(packet)

    def _cancel(self, correlation: int) -> None:
        if (task := self._cancellable.get(correlation)) is not None:
            task.cancel()
            return
        for waiting in self._calls:
            if waiting[0] == correlation and waiting is not self._calls[0]:
                self._calls.remove(waiting)
                self._send(correlation, encode_packet(correlation, _CANCELLED))
                return

    def _stream_has_room(self) -> None:
        if self._stream.queued_bytes <= RESPONSE_BYTES:
            self._stream.resume()

    def _end_waiting(self) -> None:
        self._is_ending = True
        self._calls.clear()
        if self._waiting is not None:
            self._waiting.cancel()
        for task in list(self._cancellable.values()):
            task.cancel()

    def _on_broken(self, reason: str) -> None:
        """The caller is gone: what it was waiting for ends, what it has asked for is carried out."""
        logger.info("the link from worker %d ended: it %s", self._caller, reason)
        self._end_waiting()
        self._on_closed(self)

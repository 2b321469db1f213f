"""A link from another worker over a socket."""

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from quiver.links.incoming_calls import Gate, IncomingCalls, MetadataView, waiting_call
from quiver.links.packet_stream import PacketStream
from quiver.links.request import Handlers, Reply
from quiver.model.errors import ProtocolError, QuiverError
from quiver.model.limits import MIB
from quiver.protocol.link_messages import (
    LinkCall,
    LinkCancel,
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
_encode = msgspec.msgpack.Encoder().encode


class IncomingLink:
    def __init__(
        self,
        sock: socket.socket,
        handlers: Handlers,
        view: MetadataView,
        gate: Gate,
        on_closed: Callable[["IncomingLink"], None],
        *,
        version: int,
    ) -> None:
        self._handlers, self._on_closed, self._version = handlers, on_closed, version
        self.calls = IncomingCalls("another worker", self, view, gate)
        self._has_greeted = False
        self._stream = PacketStream(
            sock, on_packet=self._on_packet, on_broken=self._on_broken, on_sent=self._stream_has_room
        )

    async def finish(self, grace_seconds: float) -> None:
        """Ends what only waits, and finishes what was begun, as far as there is time."""
        await self.calls.finish(grace_seconds)
        self._stream.close()
        self._on_closed(self)

    def reply(self, correlation: int, reply: "Reply[Any]") -> None:
        size = sum([len(memoryview(part).cast("B")) for part in reply.payload])
        packet = encode_packet(correlation, LinkResult(msgspec.Raw(_encode(reply.value))), size)
        self._stream.send(packet, reply.payload)
        if self._stream.queued_bytes > RESPONSE_BYTES:
            self._stream.pause()

    def fail(self, correlation: int, error: QuiverError) -> None:
        self._stream.send(encode_packet(correlation, link_failure(error)))

    def _on_packet(self, packet: Packet) -> None:
        message = decode_link_message(packet.message_bytes)
        if isinstance(message, LinkCall):
            find = partial(self._handlers.find, message, self._version)
            self.calls.take(
                waiting_call(packet.correlation, message.revision, find, packet.payload),
                needs_view=self._handlers.needs_view(message.capability, message.method),
            )
        elif isinstance(message, LinkPing):
            self._stream.send(_PONG)
        elif isinstance(message, LinkCancel):
            self.calls.cancel(packet.correlation)
        elif isinstance(message, LinkHello) and not self._has_greeted:
            self._has_greeted = True
            self.calls.caller = f"worker {message.worker}"
        else:
            raise ProtocolError(problem=f"{type(message).__name__} is not expected from {self.calls.caller}")

    def _stream_has_room(self) -> None:
        if self._stream.queued_bytes <= RESPONSE_BYTES:
            self._stream.resume()

    def _on_broken(self, reason: str) -> None:
        """The caller is gone: what it was waiting for ends, what it has asked for is carried out."""
        logger.info("the link from %s ended: it %s", self.calls.caller, reason)
        self.calls.end_waiting()
        self._on_closed(self)

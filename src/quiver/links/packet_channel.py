"""A link to another worker over a socket."""

import asyncio
import logging
import socket
from collections.abc import Sequence
from typing import Any

import msgspec

from quiver.links.channel import Results
from quiver.links.packet_stream import PacketStream
from quiver.links.request import PeerRequest, Reply, result_decoder
from quiver.model.errors import ProtocolError, UnsupportedVersion
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

logger = logging.getLogger(__name__)

PING_SECONDS, SILENT_PINGS = 1.0, 5
"""While calls have no response, the other worker is asked so often whether it runs, and given up after so many pings
without a word. They are counted, so that a pause of this process is not taken for one of the other."""
_PING = encode_packet(NO_CORRELATION, LinkPing())
_encode = msgspec.msgpack.Encoder().encode


class PacketChannel:
    def __init__(self, sock: socket.socket, worker: int, target: str, results: Results, version: int) -> None:
        self._target, self._results, self._version = target, results, version
        self._kinds: dict[int, type[PeerRequest[Any]]] = {}
        """Of calls without a response."""
        self._pinging: asyncio.TimerHandle | None = None
        self._silent_pings = 0
        """Since something was heard of the other worker."""
        self._is_ending = False
        self._stream = PacketStream(sock, on_packet=self._on_packet, on_broken=self._on_broken)
        self._stream.send(encode_packet(NO_CORRELATION, LinkHello(worker)))

    @property
    def queued_bytes(self) -> int:
        return self._stream.queued_bytes

    def send(self, correlation: int, request: PeerRequest[Any], payload: Sequence[Buffer], revision: int) -> int:
        if request.since > self._version:
            self._refuse(correlation, request)
            return 0
        arguments = msgspec.Raw(_encode(request))
        payload_bytes = sum([memoryview(part).nbytes for part in payload])
        call = LinkCall(request.capability, request.method, revision, arguments)
        packet = encode_packet(correlation, call, payload_bytes)
        self._stream.send(packet, payload)
        if correlation != NO_CORRELATION:
            self._kinds[correlation] = type(request)
            if self._pinging is None:
                self._silent_pings = 0
                self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)
        return len(packet) + payload_bytes

    def _refuse(self, correlation: int, request: PeerRequest[Any]) -> None:
        name = f"{request.capability}.{request.method}"
        problem = f"{self._target} speaks version {self._version} of the protocol between nodes, {name} came later"
        if correlation == NO_CORRELATION:
            logger.info("not called: %s", problem)
        else:
            self._results.failed(correlation, UnsupportedVersion(problem=problem))

    def cancel(self, correlation: int) -> None:
        self._stream.send(encode_packet(correlation, LinkCancel()))

    def end(self) -> None:
        self._is_ending = True

    def close(self) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
        self._stream.close()

    def _ping(self) -> None:
        """A worker that is stopped or hangs keeps its connections: it is given up because nothing is heard of it."""
        self._pinging = None
        if not self._kinds or self._stream.is_closed:
            return
        self._pinging = asyncio.get_running_loop().call_later(PING_SECONDS, self._ping)
        if self._silent_pings >= (1 if self._is_ending else SILENT_PINGS):
            self.close()
            self._on_broken(f"has not responded for {self._silent_pings * PING_SECONDS:g} s")
        else:
            self._silent_pings += 1
            self._stream.send(_PING)

    def _on_broken(self, reason: str) -> None:
        if self._pinging is not None:
            self._pinging.cancel()
        self._results.broken(self, reason)

    def _on_packet(self, packet: Packet) -> None:
        self._results.heard()
        self._silent_pings = 0
        message = decode_link_message(packet.message_bytes)
        if packet.correlation == NO_CORRELATION and isinstance(message, LinkPong):
            return
        kind = self._kinds.pop(packet.correlation, None)
        if kind is None:
            raise ProtocolError(problem=f"{self._target} sent a result for no call")
        if isinstance(message, LinkResult):
            self._on_result(packet.correlation, kind, message, packet.payload)
        elif isinstance(message, LinkFailure):
            self._results.failed(packet.correlation, link_error(message))
        else:
            raise ProtocolError(problem=f"{type(message).__name__} is not expected from {self._target}")

    def _on_result(
        self, correlation: int, kind: type[PeerRequest[Any]], message: LinkResult, payload: memoryview
    ) -> None:
        try:
            value = result_decoder(kind).decode(message.value)
        except msgspec.MsgspecError as problem:
            self._results.failed(correlation, ProtocolError(problem=f"a result cannot be read: {problem}"))
        else:
            self._results.replied(correlation, Reply(value, (payload,) if payload else ()))

"""Packets of the native protocol: bytes in, packets out, no sockets.

A packet is a 12-byte prefix (length of what follows the first field, correlation id, length of the message; all
u32, little endian), the message in MessagePack, and the payload, which is everything after the message.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from quiver.model.errors import ProtocolError, QuiverError, RequestTooLarge
from quiver.model.limits import KIB
from quiver.protocol.messages import Message, Request, Response
from quiver.protocol.preface import PREFACE, preface_problem

PREFIX_BYTES = 12
MAX_PACKET_BYTES = 2**32 - 1
NO_CORRELATION = 0
"""The correlation id of what belongs to no request: a failure that ends the connection. Requests count from 1."""

_PREFIX = struct.Struct("<III")
LENGTH_BYTES = 4
_ALIGNMENT = 64
_EMPTY = memoryview(b"")

_encode = msgspec.msgpack.Encoder().encode
_request_decoder: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_response_decoder: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)

Buffer = bytes | bytearray | memoryview


def encode_packet(correlation: int, message: Message, payload_length: int = 0) -> bytes:
    """Prefix and message; the caller sends `payload_length` bytes of payload right after them."""
    encoded = _encode(message)
    length = PREFIX_BYTES - LENGTH_BYTES + len(encoded) + payload_length
    if length > MAX_PACKET_BYTES:
        raise RequestTooLarge(size=length, limit=MAX_PACKET_BYTES)
    return _PREFIX.pack(length, correlation, len(encoded)) + encoded


def decode_request(message_bytes: Buffer) -> Request:
    """The request in a packet; ProtocolError when it is not one."""
    try:
        return _request_decoder.decode(message_bytes)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as problem:
        raise ProtocolError(problem=f"a request cannot be read: {problem}") from problem


def decode_response(message_bytes: Buffer) -> Response:
    """The response in a packet; ProtocolError when it is not one."""
    try:
        return _response_decoder.decode(message_bytes)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, MemoryError) as problem:
        raise ProtocolError(problem=f"a response cannot be read: {problem}") from problem


class Packet(NamedTuple):
    """Both views own their memory: they stay valid, and unchanged, for as long as they are referenced."""

    correlation: int
    message_bytes: memoryview
    payload: memoryview


class PacketReader:
    """Cuts a stream of bytes into packets, copying small ones once and large ones hardly at all.

    Receive into `get_buffer()`, then tell `received()` how many bytes came. Packets that fit half a chunk are copied
    out of it; a larger one gets a buffer of exactly its size, which the rest of it is received into. That buffer is
    allocated after the length was checked against `max_bytes` (RequestTooLarge) and, for the message,
    `max_message_bytes` (ProtocolError). Both errors carry the `correlation` of the packet in their details, and the
    reader is of no use after one. Payloads begin at a multiple of 8 bytes in memory, as Arrow likes them.

    `allocate` makes the large buffers; one that does not clear the memory is faster than the default.
    """

    __slots__ = (
        "_allocate",
        "_awaits_preface",
        "_chunk",
        "_end",
        "_error",
        "_large",
        "_large_filled",
        "_large_from",
        "_large_prefix",
        "_max_bytes",
        "_max_message_bytes",
        "_small_bytes",
        "_start",
    )

    def __init__(
        self,
        max_bytes: int,
        *,
        max_message_bytes: int | None = None,
        expect_preface: bool = False,
        chunk_bytes: int = 64 * KIB,
        allocate: Callable[[int], memoryview] = lambda size: memoryview(bytearray(size)),
    ) -> None:
        self._max_bytes = max_bytes
        self._max_message_bytes = max_bytes if max_message_bytes is None else max_message_bytes
        self._awaits_preface = expect_preface
        self._allocate = allocate
        self._chunk = memoryview(bytearray(max(chunk_bytes, 4 * PREFIX_BYTES)))
        self._small_bytes = len(self._chunk) // 2
        self._start = self._end = 0
        self._large: memoryview | None = None
        self._large_from = self._large_filled = 0
        self._large_prefix = (0, 0, 0)
        self._error: QuiverError | None = None

    @property
    def is_between_packets(self) -> bool:
        """Whether the stream may end here without cutting a packet off."""
        return self._large is None and self._start == self._end and not self._awaits_preface

    @property
    def held_bytes(self) -> int:
        """What has arrived of a packet that is not whole."""
        return self._end - self._start if self._large is None else self._large_filled

    def get_buffer(self) -> memoryview:
        """Where the next bytes go; never empty. Valid until the next call of `received`."""
        if self._error is not None:
            raise self._error
        if self._large is not None:
            return self._large[self._large_filled :]
        if self._start and (self._start == self._end or self._start >= self._small_bytes):
            rest = bytes(self._chunk[self._start : self._end])
            self._chunk[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        return self._chunk[self._end :]

    def received(self, count: int) -> list[Packet]:
        """The packets that are whole now that `count` more bytes lie in the buffer.

        Packets in front of a bad one are still returned; the error is then raised by the next call.
        """
        if self._error is not None:
            raise self._error
        packets: list[Packet] = []
        try:
            if self._large is not None:
                self._grow_large(self._large, count, packets)
            else:
                self._end += count
                self._cut(packets)
        except QuiverError as error:
            self._error = error
            if not packets:
                raise
        return packets

    def discard(self) -> None:
        """Frees what has arrived. The reader cannot be used after this."""
        self._large, self._chunk = None, _EMPTY
        self._start = self._end = 0
        self._awaits_preface = False

    def feed(self, data: Buffer) -> list[Packet]:
        """The same for bytes that were received elsewhere, at the cost of a copy."""
        packets: list[Packet] = []
        rest = memoryview(data)
        while rest:
            buffer = self.get_buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            packets += self.received(count)
            rest = rest[count:]
        return packets

    def _cut(self, packets: list[Packet]) -> None:
        if self._awaits_preface and not self._take_preface():
            return
        chunk, end, small_bytes = self._chunk, self._end, self._small_bytes
        position = self._start
        try:
            while end - position >= PREFIX_BYTES:
                prefix = _PREFIX.unpack_from(chunk, position)
                self._check(*prefix)
                length, correlation, message_length = prefix
                behind = position + LENGTH_BYTES + length
                if behind > end:
                    if length + LENGTH_BYTES > small_bytes:
                        self._begin_large(prefix, position)
                        position = end
                    break
                message_end = position + PREFIX_BYTES + message_length
                message = memoryview(bytes(chunk[position + PREFIX_BYTES : message_end]))
                payload = memoryview(bytes(chunk[message_end:behind])) if behind > message_end else _EMPTY
                packets.append(Packet(correlation, message, payload))
                position = behind
        finally:
            self._start = position

    def _take_preface(self) -> bool:
        problem = preface_problem(self._chunk[self._start : self._end])
        if problem is not None:
            raise problem
        if self._end - self._start < len(PREFACE):
            return False
        self._start += len(PREFACE)
        self._awaits_preface = False
        return True

    def _check(self, length: int, correlation: int, message_length: int) -> None:
        if length + LENGTH_BYTES > self._max_bytes:
            raise RequestTooLarge(size=length + LENGTH_BYTES, limit=self._max_bytes, correlation=correlation)
        if message_length + PREFIX_BYTES - LENGTH_BYTES > length:
            problem = f"a message of {message_length} bytes does not fit its packet of {length} bytes"
            raise ProtocolError(problem=problem, correlation=correlation)
        if message_length > self._max_message_bytes:
            problem = f"a message of {message_length} bytes is over the limit of {self._max_message_bytes}"
            raise ProtocolError(problem=problem, correlation=correlation)

    def _begin_large(self, prefix: tuple[int, int, int], position: int) -> None:
        length, _, message_length = prefix
        lead = -(PREFIX_BYTES + message_length) % _ALIGNMENT
        large = self._allocate(lead + LENGTH_BYTES + length)
        have = self._end - position
        large[lead : lead + have] = self._chunk[position : self._end]
        self._large, self._large_prefix = large, prefix
        self._large_from, self._large_filled = lead, lead + have

    def _grow_large(self, large: memoryview, count: int, packets: list[Packet]) -> None:
        self._large_filled += count
        if self._large_filled < len(large):
            return
        _, correlation, message_length = self._large_prefix
        message_from = self._large_from + PREFIX_BYTES
        message_end = message_from + message_length
        self._large = None
        self._start = self._end = 0
        packets.append(Packet(correlation, large[message_from:message_end], large[message_end:]))

"""The two sides of a native gateway under test: a bare client, and a broker that does as the test says."""

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import Any

from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.model.errors import TopicNotFound
from quiver.model.limits import Limits
from quiver.partition.partition import Appended
from quiver.protocol.messages import CODECS, ENCODINGS, Hello, Message, Response, Welcome
from quiver.protocol.packet import Packet, PacketReader, decode_response, encode_packet
from quiver.protocol.preface import PREFACE
from quiver.streams.member_connections import MemberConnections
from quiver.system.clock import SystemClock

RESPONSE_SECONDS = 20.0
HELLO = Hello([1], list(CODECS), list(ENCODINGS), "test")


class NativeClient:
    """Packets over a non-blocking socket, on the test's own loop."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._reader = PacketReader(1 << 30)
        self._packets: list[Packet] = []
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, port: int, host: str = "127.0.0.1") -> "NativeClient":
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (host, port))
        return cls(sock)

    async def greet(self) -> Welcome:
        await self.send_bytes(PREFACE)
        response = await self.ask(HELLO)
        assert isinstance(response, Welcome), response
        return response

    async def send_bytes(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.sock, data)

    async def send(self, message: Message, payload: bytes = b"", *, correlation: int = 1) -> None:
        await self.send_bytes(encode_packet(correlation, message, len(payload)) + payload)

    async def ask(self, message: Message, payload: bytes = b"", *, correlation: int = 1) -> Response:
        await self.send(message, payload, correlation=correlation)
        packet = await self.packet()
        assert packet.correlation == correlation
        return decode_response(packet.message_bytes)

    async def response(self) -> tuple[int, Response]:
        packet = await self.packet()
        return packet.correlation, decode_response(packet.message_bytes)

    async def packet(self) -> Packet:
        """The next packet; EOFError when the other side hung up."""
        async with asyncio.timeout(RESPONSE_SECONDS):
            while not self._packets:
                count = await self._loop.sock_recv_into(self.sock, self._reader.get_buffer())
                if count == 0:
                    raise EOFError
                self._packets = self._reader.received(count)
            return self._packets.pop(0)

    async def is_hung_up(self) -> bool:
        """Waits for the end of the stream; False when a packet comes instead."""
        try:
            await self.packet()
        except (EOFError, ConnectionResetError):
            return True
        return False

    def close(self) -> None:
        self.sock.close()


class FileSlice:
    """Bytes in a file, or only in memory, that count how often they are released."""

    def __init__(self, data: bytes, *, in_file: bool = True, claims: int | None = None) -> None:
        self.length = len(data) if claims is None else claims
        self.releases = 0
        self._data = data
        self._fd = os.memfd_create("slice") if in_file else -1
        if in_file:
            os.write(self._fd, b"lead" + data)

    @property
    def file(self) -> tuple[int, int] | None:
        return None if self._fd < 0 else (self._fd, 4)

    async def read(self) -> bytes | memoryview:
        return self._data

    def read_at_once(self) -> bytes | memoryview | None:
        return self._data

    def release(self) -> None:
        self.releases += 1
        if self._fd >= 0 and self.releases == 1:
            os.close(self._fd)


class ScriptedBroker:
    """Keeps every produce open until the test resolves it, and responds fetches with the slices it was given."""

    node_id = "scripted"

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.clock = SystemClock()
        self.frames: list[bytes] = []
        self.appends: list[asyncio.Future[Appended]] = []
        self.slices: list[FileSlice] = []
        self.fetch_gate: asyncio.Event | None = None
        self.fetches_ended = 0
        self.slices_given = 0
        self.fetch_options: FetchOptions | None = None
        self.streams = self.members = self
        self.connections = MemberConnections()
        self.heartbeats: list[str] = []

    def produce(
        self, topic_id: int, partition: int, frame: memoryview, *, partition_count: int = 0, alone: bool = False
    ) -> asyncio.Future[Appended]:
        if topic_id == 404:
            raise TopicNotFound(topic="404")
        if topic_id == 500:
            raise KeyError("secret")
        self.frames.append(bytes(frame))
        self.appends.append(asyncio.get_running_loop().create_future())
        return self.appends[-1]

    async def fetch(self, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        self.fetch_options = options
        try:
            if self.fetch_gate is not None:
                await self.fetch_gate.wait()
        finally:
            self.fetches_ended += 1
        self.slices_given += len(self.slices)
        return [FetchedSlice(part, piece, 1, 2, 2, 3) for part, piece in zip(parts, self.slices, strict=True)]

    def connection_lost(self, group: str, member_id: str) -> None:
        """Members are none of its business."""

    async def heartbeat(self, name: str, member_id: str, **_: Any) -> Any:
        """Never responses; notes how it began and how it ended."""
        self.heartbeats.append(f"{member_id} waits")
        try:
            await asyncio.Event().wait()
        finally:
            self.heartbeats.append(f"{member_id} is given up")

    async def ensure_topic(self, name: str) -> None:
        pass

    def topics(self) -> list[Any]:
        return []

    def topic(self, name: str) -> Any:
        raise TopicNotFound(topic=name)


async def until(check: Any, what: str = "the condition holds") -> None:
    """Lets the loop run until a condition holds; fails after a generous while."""
    async with asyncio.timeout(RESPONSE_SECONDS):
        while not check():
            await asyncio.sleep(0.001)
    assert check(), what

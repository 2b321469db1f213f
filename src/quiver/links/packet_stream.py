"""Packets over a connected stream socket, in both directions."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from quiver.model.errors import QuiverError
from quiver.protocol.packet import Buffer, Packet, PacketReader

_READS_PER_TURN = 8
_BUFFERS_PER_SEND = 64
MAX_PACKET_BYTES = 2**31 - 1


class PacketStream:
    """Sends in the order of `send`; what is sent in one turn of the loop leaves together.

    `on_packet` is called for each packet, `on_sent` after bytes have left, `on_broken` once, unless it is closed
    before.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        on_packet: Callable[[Packet], None],
        on_broken: Callable[[str], None],
        on_sent: Callable[[], None] = lambda: None,
    ) -> None:
        sock.setblocking(False)
        self._sock, self._fd = sock, sock.fileno()
        self._on_packet, self._on_broken, self._on_sent = on_packet, on_broken, on_sent
        self._loop = asyncio.get_running_loop()
        self._reader = PacketReader(MAX_PACKET_BYTES)
        self._items: deque[memoryview] = deque()
        self._will_flush = self._is_blocked = self._is_reading = False
        self._next_turn: asyncio.Handle | None = None
        self.is_closed = False
        self.queued_bytes = 0
        self.resume()

    def send(self, packet: bytes, payload: Sequence[Buffer] = ()) -> None:
        if self.is_closed:
            return
        for part in (packet, *payload):
            if len(part):
                view = memoryview(part).cast("B")
                self._items.append(view)
                self.queued_bytes += len(view)
        if not self._will_flush and not self._is_blocked:
            self._will_flush = True
            self._loop.call_soon(self._flush)

    def pause(self) -> None:
        """Reads no more until `resume`."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def close(self) -> None:
        """Drops what was not sent."""
        if self.is_closed:
            return
        self.pause()
        self.is_closed = True
        if self._is_blocked:
            self._loop.remove_writer(self._fd)
        if self._next_turn is not None:
            self._next_turn.cancel()
        self._items.clear()
        self._reader.discard()
        self.queued_bytes = 0
        self._sock.close()

    def _break(self, reason: str) -> None:
        if not self.is_closed:
            self.close()
            self._on_broken(reason)

    def _on_readable(self) -> None:
        """Reads in turns until nothing is left: uvloop reports data and a reset that come together once."""
        self._next_turn = None
        for _ in range(_READS_PER_TURN):
            if not self._is_reading or not self._read():
                return
        self._next_turn = self._loop.call_soon(self._on_readable)

    def _read(self) -> bool:
        try:
            count = self._sock.recv_into(self._reader.get_buffer())
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._break(f"cannot be reached ({error.strerror or error})")
            return False
        if count == 0:
            self._break("is gone")
            return False
        try:
            packets = self._reader.received(count)
            for packet in packets:
                self._on_packet(packet)
        except QuiverError as error:
            self._break(str(error))
        return not self.is_closed

    def _flush(self) -> None:
        self._will_flush = False
        try:
            while self._items and not self.is_closed:
                self._send_some()
        except (BlockingIOError, InterruptedError):
            self._await_room(True)
        except OSError as error:
            self._break(f"cannot be reached ({error.strerror or error})")
            return
        else:
            self._await_room(False)
        if not self.is_closed:
            self._on_sent()

    def _send_some(self) -> None:
        sent = self._sock.sendmsg(list(islice(self._items, _BUFFERS_PER_SEND)))
        self.queued_bytes -= sent
        while sent:
            first = self._items[0]
            if sent < len(first):
                self._items[0] = first[sent:]
                return
            sent -= len(first)
            self._items.popleft()

    def _await_room(self, is_blocked: bool) -> None:
        if is_blocked == self._is_blocked or self.is_closed:
            return
        self._is_blocked = is_blocked
        if is_blocked:
            self._loop.add_writer(self._fd, self._flush)
        else:
            self._loop.remove_writer(self._fd)

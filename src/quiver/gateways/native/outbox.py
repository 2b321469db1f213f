"""Responses on their way to one socket: bytes, and slices of files that go out with sendfile."""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from itertools import islice

from quiver.gateways.native.context import NativeCounts
from quiver.model.limits import KIB, MIB
from quiver.storage.port import FrameSlice
from quiver.system.pace import Pace

_BUFFERS_PER_SEND = 64
_BYTES_PER_TURN = MIB
"""After so many bytes the loop gets a turn, however fast the client reads."""
_SMALL_SLICES_BYTES = 64 * KIB
"""So much of slices is read and sent with the bytes before them: for less, sendfile costs more than a copy."""
_ITEM_OVERHEAD = 128
_NO_SENDFILE = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


class Outbox:
    """Sends in the order of `put`. Owns the slices put into it and releases each exactly once.

    `on_sent` is called after bytes were sent, `on_broken` when no more can be. Responses that become ready in one
    turn of the loop leave in one system call, in the next turn (`_flush`), together with small slices. What does not
    leave then is sent by a task: large slices, and whatever the socket does not take at once.
    """

    def __init__(
        self,
        sock: socket.socket,
        counts: NativeCounts,
        *,
        on_sent: Callable[[], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._sock, self._fd = sock, sock.fileno()
        self._counts = counts
        self._on_sent, self._on_broken = on_sent, on_broken
        self._loop = asyncio.get_running_loop()
        self._items: deque[bytes | memoryview | FrameSlice] = deque()
        self._slice_count = 0
        self._wakeup: asyncio.Future[None] | None = None
        self._closed = self._corked = self._will_flush = False
        self._has_sendfile = isinstance(sock, socket.socket)
        self._is_tcp = sock.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_CORK")
        self.queued_bytes = 0
        self.memory_bytes = 0
        """What of it is in memory, and not a slice of a file."""
        self.put_total = self.sent_total = 0
        """Bytes since the beginning: what was put when `put_total` was n has left when `sent_total` reaches n."""
        self.is_blocked = False
        """The socket took nothing at the last try although there is something to send."""
        self._task: asyncio.Task[None] | None = self._loop.create_task(self._run())

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def is_empty(self) -> bool:
        return not self._items

    def put(
        self, packet: bytes, slices: tuple[FrameSlice, ...] = (), payload: tuple[bytes | memoryview, ...] = ()
    ) -> None:
        """Queues a packet and what follows it: slices, or bytes."""
        if self._closed:
            for part in slices:
                part.release()
            return
        if slices and not self._items and (read := _read_small(slices)) is not None:
            slices, payload = (), read
        self._items.append(packet)
        size = in_memory = len(packet)
        overhead = _ITEM_OVERHEAD
        if slices or payload:
            self._items.extend(slices)
            self._slice_count += len(slices)
            self._items.extend(payload)
            in_memory += sum(map(len, payload))
            size = in_memory + sum([part.length for part in slices])
            overhead += _ITEM_OVERHEAD * len(payload)
        self.put_total += size
        self.queued_bytes += size + overhead
        self.memory_bytes += in_memory + overhead
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)

    def flush(self) -> None:
        """Sends now what would leave in the next turn, as far as that is possible."""
        if self._will_flush:
            self._flush()

    def close(self) -> None:
        """Drops what was not sent. The caller closes the socket after this, in the same turn of the loop."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_writer(self._fd)
        if self._task is not None:
            self._task.cancel()
        self._task, self._on_sent, self._on_broken = None, _nothing, _ignore  # so that all are freed at once
        for item in self._items:
            if not isinstance(item, bytes | memoryview):
                item.release()
        self._items.clear()
        self.queued_bytes = self.memory_bytes = 0

    def _flush(self) -> None:
        """Sends what was put in the last turn, if it is bytes; leaves the rest to the task."""
        self._will_flush = False
        wakeup = self._wakeup
        if wakeup is None or wakeup.done() or not self._items:
            return  # the task is at it, or has not begun: then it looks for itself
        try:
            if not self._slice_count and self._send_bytes():
                self._on_sent()
        except Exception as error:
            self._on_broken(str(error))
        if self._items and not wakeup.done():
            wakeup.set_result(None)

    async def _run(self) -> None:
        pace = Pace()
        try:
            while True:
                if self._items:
                    await pace.turn()
                else:
                    self._wakeup = self._loop.create_future()
                    await self._wakeup
                    pace = Pace()
                if self._slice_count:
                    await self._read_small_slices()
                if isinstance(self._items[0], bytes | memoryview):
                    if not self._send_bytes():
                        await self._writable()
                else:
                    await self._send_slice(self._items[0])
                self._on_sent()
        except Exception as error:
            # Half a packet may have left: whatever failed, a socket or a stored slice, the stream cannot go on.
            self._on_broken(str(error))

    async def _read_small_slices(self) -> None:
        """Puts the bytes of small slices near the head of the queue in their place."""
        left = _SMALL_SLICES_BYTES
        for place in range(min(len(self._items), _BUFFERS_PER_SEND)):
            part = self._items[place]
            if isinstance(part, bytes | memoryview):
                continue
            left -= part.length
            if left < 0:
                return
            self._items[place] = _whole(await part.read(), part.length)
            self._slice_count -= 1
            self.queued_bytes += _ITEM_OVERHEAD
            self.memory_bytes += part.length + _ITEM_OVERHEAD
            part.release()

    def _send_bytes(self) -> bool:
        """Sends the run of bytes at the head of the queue, or some of it; False when the socket takes nothing."""
        run: list[bytes | memoryview] = []
        slices_follow = 0
        for item in islice(self._items, _BUFFERS_PER_SEND):
            if isinstance(item, bytes | memoryview):
                if slices_follow:
                    break
                run.append(item)
            else:
                slices_follow += 1
                if slices_follow == 2:
                    break
        if (slices_follow == 2) != self._corked and slices_follow != 1:
            self._cork(not self._corked)
        try:
            sent = self._sock.sendmsg(run, (), socket.MSG_MORE if slices_follow else 0)
        except (BlockingIOError, InterruptedError):
            return False
        self._progress(sent)
        gone = 0
        for item in run:
            size = len(item)
            if sent < size:
                self._items[0] = memoryview(item)[sent:]
                gone += sent
                break
            self._items.popleft()
            sent -= size
            gone += size + _ITEM_OVERHEAD
        self.queued_bytes -= gone
        self.memory_bytes -= gone
        return True

    async def _send_slice(self, part: FrameSlice) -> None:
        file = part.file
        if file is None or not self._has_sendfile or not await self._send_file(file[0], file[1], part.length):
            await self._send_all(_whole(await part.read(), part.length))
        self._items.popleft()
        self._slice_count -= 1
        part.release()
        if self._corked and (not self._items or isinstance(self._items[0], bytes | memoryview)):
            self._cork(False)

    def _cork(self, corked: bool) -> None:
        """Lets the kernel fill whole segments from many small slices, where the socket can do that."""
        if self._is_tcp:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, corked)
            self._corked = corked

    async def _send_file(self, fd: int, position: int, length: int) -> bool:
        """False, with nothing sent, where the file system has no sendfile."""
        end, turn = position + length, 0
        while position < end:
            try:
                sent = os.sendfile(self._fd, fd, position, min(end - position, _BYTES_PER_TURN))
            except (BlockingIOError, InterruptedError):
                await self._writable()
                continue
            except OSError as error:
                if error.errno in _NO_SENDFILE and position == end - length:
                    return False
                raise
            if sent == 0:
                raise OSError(errno.EIO, "stored bytes are shorter than announced")
            position += sent
            turn += sent
            self.queued_bytes -= sent
            self._progress(sent)
            if turn >= _BYTES_PER_TURN:
                turn = 0
                await asyncio.sleep(0)
        return True

    async def _send_all(self, data: memoryview) -> None:
        while data:
            try:
                sent = self._sock.send(data[:_BYTES_PER_TURN])
            except (BlockingIOError, InterruptedError):
                await self._writable()
                continue
            self.queued_bytes -= sent
            self._progress(sent)
            data = data[sent:]
            if data:
                await asyncio.sleep(0)

    def _progress(self, sent: int) -> None:
        self.is_blocked = False
        self.sent_total += sent
        self._counts.bytes_sent += sent

    async def _writable(self) -> None:
        self.is_blocked = True
        ready: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._fd, _set, ready)
        try:
            await ready
        finally:
            if not self._closed:
                self._loop.remove_writer(self._fd)


def _read_small(slices: tuple[FrameSlice, ...]) -> tuple[memoryview, ...] | None:
    """The bytes of slices that are small all together, which are released then; None if they are not, or cannot be
    read: then they are sent, or fail, in their turn."""
    if sum([part.length for part in slices]) > _SMALL_SLICES_BYTES:
        return None
    read: list[memoryview] = []
    try:
        for part in slices:
            data = part.read_at_once()
            if data is None:
                return None
            read.append(_whole(data, part.length))
    except OSError:
        return None
    for part in slices:
        part.release()
    return tuple(read)


def _whole(data: bytes | memoryview, length: int) -> memoryview:
    view = memoryview(data).cast("B")[:length]
    if len(view) != length:
        raise OSError(errno.EIO, "stored bytes are shorter than announced")
    return view


def _nothing() -> None:
    pass


def _ignore(reason: str) -> None:
    pass


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)

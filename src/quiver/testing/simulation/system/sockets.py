"""Sockets in memory: what Quiver uses of `socket.socket`, between loops that the simulator runs."""

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from quiver.testing.simulation.world import World

if TYPE_CHECKING:
    from quiver.testing.simulation.system.loop import SimulatedLoop

BUFFER_BYTES = 256 * 1024
"""What may be on its way, or unread, in one direction."""
_FIRST_FD = 1_000_000


class Wire(Protocol):
    """How long bytes travel."""

    def delay_seconds(self, source: str, target: str) -> float: ...


class SimulatedSocket:
    """One end of a connection, or a listener. `owner` is the name of the process that holds it."""

    family = socket.AF_UNIX

    def __init__(self, world: World, owner: str, wire: Wire) -> None:
        self._world, self.owner, self._wire = world, owner, wire
        self._fd = _FIRST_FD + len(world.sockets)
        world.sockets[self._fd] = self
        self.peer: SimulatedSocket | None = None
        self._received: deque[memoryview] = deque()
        self._unread = 0
        self._underway = 0
        """Bytes that were sent here and have not been read, on their way or arrived."""
        self._arrives_at = 0.0
        self._backlog: deque[SimulatedSocket] = deque()
        self._has_ended = self._is_broken = self.is_closed = False
        self._sends_no_more = False
        self._reader: tuple[SimulatedLoop, asyncio.Handle] | None = None
        self._writer: tuple[SimulatedLoop, asyncio.Handle] | None = None
        self._reader_called = self._writer_called = False
        self._moved: SimulatedSocket | None = None

    @classmethod
    def of(cls, world: World, fd: int) -> "SimulatedSocket":
        found: SimulatedSocket = world.sockets[fd]
        return found

    # what a socket has

    def fileno(self) -> int:
        return -1 if self.is_closed else self._fd

    def setblocking(self, flag: bool) -> None:
        pass

    def setsockopt(self, *option: Any) -> None:
        pass

    def getpeername(self) -> str:
        return self.peer.owner if self.peer is not None else ""

    def accept(self) -> "tuple[SimulatedSocket, str]":
        if not self._backlog:
            raise BlockingIOError
        accepted = self._backlog.popleft()
        return accepted, accepted.getpeername()

    def recv_into(self, buffer: Any, nbytes: int = 0) -> int:
        self._check()
        if not self._received:
            if self._has_ended:
                return 0
            raise BlockingIOError
        view = memoryview(buffer).cast("B")
        room = min(nbytes or len(view), len(view))
        done = 0
        while self._received and done < room:
            chunk = self._received[0]
            count = min(len(chunk), room - done)
            view[done : done + count] = chunk[:count]
            done += count
            if count == len(chunk):
                self._received.popleft()
            else:
                self._received[0] = chunk[count:]
        self._unread -= done
        self._underway -= done
        if self.peer is not None:
            self.peer._changed()
        return done

    def send(self, data: Any, flags: int = 0) -> int:
        return self.sendmsg([data])

    def sendmsg(self, buffers: Sequence[Any], ancdata: Sequence[Any] = (), flags: int = 0) -> int:
        self._check()
        peer = self.peer
        if self._sends_no_more or peer is None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = BUFFER_BYTES - peer._underway
        data = b"".join(buffers)[: max(0, room)]
        if not data:
            raise BlockingIOError
        peer._underway += len(data)
        self._travel(peer._arrive, memoryview(data))
        return len(data)

    def shutdown(self, how: int) -> None:
        self._check()
        if how in (socket.SHUT_WR, socket.SHUT_RDWR) and not self._sends_no_more:
            self._sends_no_more = True
            if self.peer is not None:
                self._travel(self.peer._end)
        if how in (socket.SHUT_RD, socket.SHUT_RDWR):
            self._received.clear()
            self._end()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._reader = self._writer = None
        peer = self.peer
        if peer is not None and not self._is_broken:
            self._travel(peer.reset if self._received else peer._end)
        for waiting in self._backlog:
            waiting.close()

    def __enter__(self) -> "SimulatedSocket":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # what the network does

    def move_to(self, owner: str) -> "SimulatedSocket":
        """The same end of the connection in another process, with what was not read. This one is of no use then."""
        moved = SimulatedSocket(self._world, owner, self._wire)
        moved.peer, self.peer, self._moved = self.peer, None, moved
        if moved.peer is not None:
            moved.peer.peer = moved
        moved._received, self._received = self._received, deque()
        moved._unread, moved._underway, moved._arrives_at = self._unread, self._underway, self._arrives_at
        moved._has_ended, moved._is_broken = self._has_ended, self._is_broken
        return moved

    def offer(self, accepted: "SimulatedSocket") -> None:
        """A connection comes in at a listener."""
        self._backlog.append(accepted)
        self._changed()

    def reset(self) -> None:
        """The connection breaks: what was not read is lost, and every call fails."""
        if self._moved is not None:
            self._moved.reset()
        elif not self.is_closed and not self._is_broken:
            self._is_broken = True
            self._received.clear()
            self._changed()

    def forget(self, probe_seconds: float) -> None:
        """The machine has lost its power and is back: whatever comes for this connection is answered by a reset. What
        was sent before comes again, and something comes after a while."""
        self.is_closed = True
        self._reader = self._writer = None
        if self.peer is not None:
            self._world.later(0.0 if self._received else probe_seconds, self._travel, self.peer.reset)

    def _travel(self, arrival: Any, *args: Any) -> None:
        """Things sent one after the other arrive in that order."""
        peer = self.peer
        assert peer is not None, "a connection has two ends"
        when = self._world.now + self._wire.delay_seconds(self.owner, peer.owner)
        self._arrives_at = max(self._arrives_at, when)
        self._world.at(self._arrives_at, arrival, *args)

    def _arrive(self, data: memoryview) -> None:
        if self._moved is not None:
            self._moved._arrive(data)
            return
        if self._is_broken:
            return
        if self.is_closed:
            if self.peer is not None:
                self._travel(self.peer.reset)
            return
        self._received.append(data)
        self._unread += len(data)
        self._changed()

    def _end(self) -> None:
        if self._moved is not None:
            self._moved._end()
            return
        self._has_ended = True
        self._changed()

    def _check(self) -> None:
        if self.is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        if self._is_broken:
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    # who waits for it

    def set_reader(self, loop: "SimulatedLoop", handle: asyncio.Handle | None) -> bool:
        had = self._reader is not None
        self._reader = (loop, handle) if handle is not None else None
        self._changed()
        return had

    def set_writer(self, loop: "SimulatedLoop", handle: asyncio.Handle | None) -> bool:
        had = self._writer is not None
        self._writer = (loop, handle) if handle is not None else None
        self._changed()
        return had

    @property
    def _is_readable(self) -> bool:
        return bool(self._received or self._backlog) or self._has_ended or self._is_broken

    @property
    def _is_writable(self) -> bool:
        return self._is_broken or self.peer is None or self.peer._underway < BUFFER_BYTES

    def _changed(self) -> None:
        """Tells who waits, once until they have looked."""
        if self._reader is not None and self._is_readable and not self._reader_called:
            self._reader_called = True
            self._reader[0].call_soon(self._call_reader)
        if self._writer is not None and self._is_writable and not self._writer_called:
            self._writer_called = True
            self._writer[0].call_soon(self._call_writer)

    def _call_reader(self) -> None:
        self._reader_called = False
        if self._reader is not None and self._is_readable:
            self._reader[1]._run()
            self._changed()

    def _call_writer(self) -> None:
        self._writer_called = False
        if self._writer is not None and self._is_writable:
            self._writer[1]._run()
            self._changed()

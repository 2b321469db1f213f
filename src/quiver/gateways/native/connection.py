"""One client's socket: reads requests as fast as they are carried out, until either side closes it."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable

import numpy as np

from quiver.gateways.native.context import NativeContext
from quiver.gateways.native.handshake import OtherWorkerWanted
from quiver.gateways.native.outbox import Outbox
from quiver.gateways.native.session import Session
from quiver.model.errors import Overloaded, ProtocolError, QuiverError, ShuttingDown, SlowClient
from quiver.model.limits import KIB
from quiver.protocol.packet import NO_CORRELATION, Packet, PacketReader
from quiver.structures.least_rate import LeastRate

logger = logging.getLogger(__name__)

_READS_PER_TURN = 8
_NO_BUFFER = memoryview(b"")


def _uncleared(size: int) -> memoryview:
    """Memory that the kernel provides page by page as bytes arrive, so that a length field alone costs none."""
    return np.empty(size, np.uint8).data


class Connection:
    """Lives from construction (inside the running loop) until it calls `on_closed`.

    It is open; then, after `finish`, it reads no more, finishes what was begun and lingers until the client hangs up;
    then it is closed. `abort` closes it at once.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        context: NativeContext,
        *,
        on_closed: Callable[["Connection"], None],
        read_before: bytes = b"",
    ) -> None:
        """`read_before`: what another worker has read from the socket already."""
        self._peer, self._settings, self._counts = peer, context.settings, context.counts
        self._sock, self._fd = sock, sock.fileno()
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._reader = PacketReader(
            context.broker.limits.request_bytes,
            max_message_bytes=context.settings.message_bytes,
            expect_preface=True,
            allocate=_uncleared,
        )
        self._buffer = self._reader.get_buffer()
        self._received: deque[Packet] = deque()
        self._holding = context.budget.open()
        self._awaits_memory = False
        self._bytes_received = 0
        self._sending, self._taking = LeastRate(), LeastRate()
        self._outbox = Outbox(sock, context.counts, on_sent=self._on_room, on_broken=self.abort)
        self._session = Session(context, peer, self._outbox, self._holding, on_done=self._on_done)
        self._reading = self._finishing = self._lingering = self._closed = False
        self._will_look_for_room = False
        self._next_turn: asyncio.Handle | None = None
        self._opened = self._loop.time()
        self._linger_until = 0.0
        self._pass_on = context.place.pass_on
        self._before_welcome: bytearray | None = None if self._pass_on is None else bytearray()
        """What was read so far, while the connection may still go to another worker."""
        if read_before:
            self._loop.call_soon(self._take_read_before, read_before)
        else:
            self._resume()

    def finish(self) -> None:
        """Takes no more requests, finishes those begun, and closes when the client has read the responses."""
        self._finish(ShuttingDown())

    def abort(self, reason: str) -> None:
        """Closes at once. Requests that the broker has taken are carried out; their responses are dropped."""
        if self._closed:
            return
        self._closed = True
        logger.debug("the connection with %s ends: %s", self._peer, reason)
        self._pause()
        self._forget_arrived()
        self._outbox.close()
        self._session.end_waiting(None)
        self._session.give_back_unsent()
        self._session.members_lost()
        self._holding.stop_waiting()
        self._holding.resize(self._memory_bytes)
        self._sock.close()
        self._on_closed(self)
        self._let_go_of_session()

    def check_deadlines(self, now: float) -> None:
        """Disconnects a client that keeps the broker waiting for too long."""
        handshake = self._settings.handshake_seconds
        if self._lingering:
            if now >= self._linger_until:
                self.abort("the client did not hang up")
        elif self._is_slow(self._taking, now, self._outbox.sent_total, due=self._outbox.is_blocked):
            self._drop(f"took its responses more slowly than {self._least_rate}")
        elif not self._session.greeted and not self._finishing and now - self._opened > handshake:
            self._refuse(ProtocolError(problem=f"no handshake within {handshake:g} s"))
        elif self._is_slow(self._sending, now, self._bytes_received, due=self._reading and self._is_within_packet):
            self._counts.clients_stalled += 1
            logger.warning("disconnecting %s: it sent a request more slowly than %s", self._peer, self._least_rate)
            self._refuse(SlowClient(what="a request", rate=self._least_rate))

    @property
    def _is_within_packet(self) -> bool:
        return not self._reader.is_between_packets

    @property
    def _least_rate(self) -> str:
        settings = self._settings
        return f"{settings.least_bytes_per_second} bytes per second for {settings.stall_seconds:g} s"

    def _is_slow(self, rate: LeastRate, now: float, count: int, *, due: bool) -> bool:
        settings = self._settings
        return rate.is_missed(
            now, count, due=due, span_seconds=settings.stall_seconds, per_second=settings.least_bytes_per_second
        )

    def _on_readable(self) -> None:
        """Reads until nothing is left, in turns.

        Leaving the rest to the next event would lose it: when data and a reset come as one event, uvloop reports
        that event once and polls no more, so the reset must be found by reading on.
        """
        if self._next_turn is not None:
            self._next_turn.cancel()
            self._next_turn = None
        for _ in range(_READS_PER_TURN):
            if not self._reading or not self._read():
                return
        self._next_turn = self._loop.call_soon(self._on_readable)

    def _read(self) -> bool:
        """Takes in what one call gives, as far as there is memory for it; False when there was nothing."""
        room = self._holding.room()
        if not room and not self._lingering:
            self._await_memory()
            return False
        try:
            count = self._sock.recv_into(self._buffer, 0 if self._lingering else min(room, len(self._buffer)))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self.abort(str(error))
            return False
        if count == 0:
            self._on_hangup()
            return False
        self._bytes_received += count
        self._counts.bytes_received += count
        if not self._lingering:
            if self._before_welcome is not None:
                self._before_welcome += self._buffer[:count]
            try:
                packets = self._reader.received(count)
            except QuiverError as error:
                self._refuse(error)
            else:
                self._take(packets)
        return True

    def _take_read_before(self, data: bytes) -> None:
        if self._closed or self._finishing:
            return
        self._resume()
        try:
            packets = self._reader.feed(data)
        except QuiverError as error:
            self._refuse(error)
        else:
            self._take(packets)

    def _take(self, packets: list[Packet]) -> None:
        self._received.extend(packets)
        self._begin_received()
        self._holding.arrived(self._memory_bytes)
        if packets:
            self._holding.end_request()
            self._before_welcome = None
        if len(packets) == 1:
            self._outbox.flush()  # a client that waits for its response; many responses leave together

    @property
    def _memory_bytes(self) -> int:
        """What has arrived, what is in flight, and responses that the client has not read."""
        size = self._reader.held_bytes + self._session.in_flight_bytes + self._outbox.memory_bytes
        for packet in self._received:
            size += len(packet.message_bytes) + len(packet.payload)
        return size

    def _await_memory(self) -> None:
        """Reads no more until others have given memory back."""
        self._pause()
        self._awaits_memory = True
        self._holding.when_admitted(self._on_memory)

    def _on_memory(self) -> None:
        self._awaits_memory = False
        if not (self._closed or self._finishing or self._received):
            self._resume()

    def _begin_received(self) -> None:
        """Begins requests as far as the bounds allow; the rest waits, and reading with it."""
        try:
            while self._received:
                if self._is_full:
                    self._pause()
                    return
                self._session.begin(self._received.popleft())
            self._buffer = self._reader.get_buffer()
        except OtherWorkerWanted as other:
            self._go_to(other.worker)
        except QuiverError as error:
            self._refuse(error)

    def _go_to(self, worker: int) -> None:
        """Passes the socket on with what was read, and is done with it; nothing was sent yet."""
        assert self._pass_on is not None
        assert self._before_welcome is not None
        try:
            self._pass_on(worker, self._sock, bytes(self._before_welcome))
        except ValueError:
            self._refuse(ProtocolError(problem="too many bytes came before Welcome was sent"))
        except OSError as error:
            self._refuse(Overloaded(problem=f"worker {worker} takes no connections: {error.strerror}"))
        else:
            self.abort(f"it was passed to worker {worker}")

    @property
    def _is_full(self) -> bool:
        return (
            self._session.in_flight >= self._settings.requests_in_flight
            or self._session.in_flight_bytes >= self._settings.request_bytes_in_flight
            or self._outbox.queued_bytes >= self._settings.response_bytes_queued
        )

    def _on_done(self) -> None:
        """A request was carried out. Of those that end in one turn of the loop, the last is what counts."""
        if not self._will_look_for_room:
            self._will_look_for_room = True
            self._loop.call_soon(self._on_room)

    def _on_room(self) -> None:
        """A request was carried out or a response was sent: continues with what had to wait for it."""
        self._will_look_for_room = False
        self._session.forget_sent()
        self._holding.resize(self._memory_bytes)
        if self._closed:
            self._let_go_of_session()
            return
        if self._lingering:
            return
        if self._finishing:
            if not self._session.in_flight and self._outbox.is_empty:
                self._linger()
        elif not self._reading:
            self._begin_received()
            if not (self._received or self._finishing or self._awaits_memory):
                self._resume()

    def _let_go_of_session(self) -> None:
        """So that all is freed at once when the last request is carried out."""
        if not self._session.in_flight:
            self._session.let_go()

    def _resume(self) -> None:
        if not self._reading:
            self._reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._fd)

    def _on_hangup(self) -> None:
        """The client sends no more; it may still read what it asked for, but has no use for what it waits for."""
        if self._lingering or not self._session.greeted:
            self.abort("the client hung up")
        else:
            self._finish(None)

    def _refuse(self, error: QuiverError) -> None:
        """Sends an error after which the stream cannot be read any further, then finishes."""
        logger.info("refused %s: %s", self._peer, error)
        self._received.clear()
        self._session.fail(error.details.get("correlation", NO_CORRELATION), error)
        self._finish(error)

    def _finish(self, error: QuiverError | None) -> None:
        if self._finishing or self._closed:
            return
        self._finishing = True
        self._pause()
        self._holding.stop_waiting()
        if error is not None:
            for packet in self._received:
                self._session.fail(packet.correlation, error)
        self._forget_arrived()
        self._session.end_waiting(error)
        self._on_room()

    def _forget_arrived(self) -> None:
        self._received.clear()
        self._reader.discard()
        self._buffer = _NO_BUFFER

    def _linger(self) -> None:
        """Waits for the client to hang up: closing with unread bytes would lose responses."""
        self._lingering = True
        self._linger_until = self._loop.time() + self._settings.linger_seconds
        self._buffer = memoryview(bytearray(64 * KIB))
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.abort(str(error))
        else:
            self._resume()

    def _drop(self, what: str) -> None:
        self._counts.clients_stalled += 1
        logger.warning("disconnected %s: it %s", self._peer, what)
        self.abort(what)

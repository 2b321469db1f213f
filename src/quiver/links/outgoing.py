"""A link to another worker: calls on their way, and a new connection when one breaks."""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from quiver.links.channel import Channel, LocalEnd, RemoteEnd
from quiver.links.packet_channel import PacketChannel
from quiver.links.request import PeerRequest, R, Reply
from quiver.links.versions import SPOKEN
from quiver.model.errors import NotOwner, Overloaded, ProtocolError, QuiverError, ShuttingDown, WorkerUnavailable
from quiver.model.limits import MIB
from quiver.protocol.packet import NO_CORRELATION, Buffer
from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

REQUEST_BYTES = 64 * MIB
"""Of calls that have no response yet; beyond it, more calls wait."""
_LAST_CORRELATION = 2**32 - 1
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.01, 1.0
_encode = msgspec.msgpack.Encoder().encode

Target = int | str
"""A worker by its number, or a node by its id."""
End = socket.socket | RemoteEnd | LocalEnd
"""A connected stream socket to a worker of the same program or to another node, or a worker of this process."""
Dial = Callable[[Any], Awaitable[End]]
"""Connects to a target; OSError when that fails."""
OnLate = Callable[[Reply[Any]], None]
"""Gets a result that comes after its caller was cancelled."""


class _Call:
    __slots__ = ("channel", "future", "on_late", "payload", "request", "size")

    def __init__(
        self,
        request: PeerRequest[Any],
        payload: Sequence[Buffer],
        future: "asyncio.Future[Any]",
        on_late: OnLate | None,
    ) -> None:
        self.request, self.payload, self.future, self.on_late = request, payload, future, on_late
        self.size = 0
        self.channel: Channel | None = None
        """None: it has not been sent."""


class OutgoingLink:
    """Calls leave in the order of `begin`. When the connection breaks, calls without a response fail; those that are
    begun after that wait for the next connection.

    A target that moves says so (`not_owner`) before it begins a call: such a call waits for the next connection too,
    and the connection is left when the last result has come over it.
    """

    def __init__(self, worker: int, target: Target, dial: Dial, revision: Callable[[], int], *, moves: bool) -> None:
        self.target = target
        self._worker, self._dial, self._revision, self._moves = worker, dial, revision, moves
        self._channel: Channel | None = None
        self._left: list[Channel] = []
        """Channels that get no more calls, until the last result has come."""
        self._nodes: dict[Channel, str] = {}
        """Where each channel goes."""
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._not_before = 0.0
        """The time of the loop at which it may connect again."""
        self._calls: dict[int, _Call] = {}
        self._unsent: list[tuple[int, PeerRequest[Any], Sequence[Buffer], int]] = []
        self._unsent_bytes = 0
        self._last_correlation = NO_CORRELATION
        self._call_bytes = 0
        self._awaiting_room: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self._is_ending = False
        """The whole broker stops: whoever is gone is not followed by another."""

    @property
    def in_flight(self) -> int:
        return len(self._calls)

    @property
    def is_connected(self) -> bool:
        return self._channel is not None

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
            raise Overloaded(problem=f"{self._call_bytes} bytes wait for {self._name}")
        if self._is_ending and self._channel is None:
            raise self._unavailable("has stopped")
        correlation = self._next_correlation()
        future: asyncio.Future[Reply[R]] = asyncio.get_running_loop().create_future()
        call = self._calls[correlation] = _Call(request, payload, future, on_late)
        future.add_done_callback(partial(self._on_done, correlation))
        call.channel = self._channel
        call.size = self._send(correlation, request, payload)
        if correlation in self._calls:
            self._call_bytes += call.size
        return future

    def tell(self, request: PeerRequest[Any], payload: Sequence[Buffer] = ()) -> None:
        """A call that nobody waits for; it is lost if the connection breaks before it has arrived."""
        queued = self._unsent_bytes if self._channel is None else self._channel.queued_bytes
        is_gone = self._is_closed or (self._is_ending and self._channel is None)
        if not is_gone and queued < REQUEST_BYTES:
            self._send(NO_CORRELATION, request, payload)
        else:
            logger.warning("%s.%s for %s was dropped", request.capability, request.method, self._name)

    def leave(self) -> None:
        """The target has moved: calls go over a new connection from now on."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._left.append(channel)
            self._close_left()

    def redirect(self, owner: str, nodes: Collection[str]) -> None:
        """The target runs at the node `owner` now, or nowhere. Nobody waits for results of nodes that are gone."""
        for channel in self._channels:
            node = self._nodes[channel]
            if node == owner:
                continue
            if node not in nodes:
                channel.close()
                self.broken(channel, "is gone with its broker")
            elif channel is self._channel:
                self.leave()

    def end(self) -> None:
        """All workers are being stopped: calls go on, but to nobody who has stopped already."""
        self._is_ending = True
        for channel in self._channels:
            channel.end()
        if self._connecting is not None:
            self._connecting.cancel()
            self._fail_unsent("has stopped")

    def close(self) -> None:
        """Calls without a response fail."""
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        for channel in self._channels:
            channel.close()
        self._channel, self._left = None, []
        self._nodes.clear()
        self._fail(list(self._calls), "is no longer called: this worker stops")
        self._unsent, self._unsent_bytes = [], 0

    @property
    def _channels(self) -> list[Channel]:
        return [*self._left, *([] if self._channel is None else [self._channel])]

    @property
    def _name(self) -> str:
        return f"worker {self.target}"

    def _unavailable(self, problem: str) -> WorkerUnavailable:
        return WorkerUnavailable(worker=self.target, problem=problem)

    def _next_correlation(self) -> int:
        while True:
            self._last_correlation = self._last_correlation % _LAST_CORRELATION + 1
            if self._last_correlation not in self._calls:
                return self._last_correlation

    def _send(self, correlation: int, request: PeerRequest[Any], payload: Sequence[Buffer]) -> int:
        """Returns its size."""
        if self._channel is not None:
            return self._channel.send(correlation, request, payload, self._revision())
        size = len(_encode(request)) + sum([memoryview(part).nbytes for part in payload])
        self._unsent.append((correlation, request, payload, self._revision()))
        self._unsent_bytes += size
        self._connect()
        return size

    def _on_done(self, correlation: int, future: "asyncio.Future[Any]") -> None:
        """Also when the caller was cancelled: then the other worker is told, and its last word is waited for."""
        if future.cancelled() and (call := self._calls.get(correlation)) is not None and call.channel is not None:
            call.channel.cancel(correlation)

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
                    end = await self._dial(self.target)
                except OSError as error:
                    self._pause()
                    self._fail_unsent(f"cannot be reached ({error.strerror or error})")
                else:
                    break
        finally:
            self._connecting = None
        self._use(end)

    def _use(self, end: End) -> None:
        channel: Channel
        node = ""
        if isinstance(end, LocalEnd):
            channel, node = end.connect(f"worker {self._worker}", self), end.node
        else:
            sock, version, node = end if isinstance(end, RemoteEnd) else (end, SPOKEN.newest, "")
            channel = PacketChannel(sock, self._worker, self._name, self, version)
        self._channel = channel
        self._nodes[channel] = node
        unsent, self._unsent, self._unsent_bytes = self._unsent, [], 0
        for correlation, request, payload, revision in unsent:
            if (call := self._calls.get(correlation)) is not None:
                call.channel = channel
            channel.send(correlation, request, payload, revision)
        for correlation, call in list(self._calls.items()):
            if call.future.cancelled() and call.channel is channel:
                channel.cancel(correlation)

    def _pause(self) -> None:
        self._not_before = asyncio.get_running_loop().time() + self._backoff.next_seconds()

    def _fail_unsent(self, problem: str) -> None:
        self._unsent, self._unsent_bytes = [], 0
        self._fail([correlation for correlation, call in self._calls.items() if call.channel is None], problem)

    def _fail(self, correlations: Sequence[int], problem: str) -> None:
        for correlation in correlations:
            call = self._calls.pop(correlation)
            self._call_bytes -= call.size
            if not call.future.done():
                call.future.set_exception(self._unavailable(problem))
        self._wake()

    # what channels report

    def heard(self) -> None:
        self._backoff.reset()

    def broken(self, channel: Channel, reason: str) -> None:
        logger.info("the link to %s broke: it %s", self._name, reason)
        if channel is self._channel:
            self._channel = None
            self._pause()
        elif channel in self._left:
            self._left.remove(channel)
        self._nodes.pop(channel, None)
        self._fail([correlation for correlation, call in self._calls.items() if call.channel is channel], reason)

    def replied(self, correlation: int, reply: "Reply[Any]") -> None:
        call = self._ended(correlation)
        if not call.future.done():
            call.future.set_result(reply)
        elif call.on_late is not None:
            try:
                call.on_late(reply)
            except QuiverError:
                logger.warning("a late result of %s was not used", self._name, exc_info=True)

    def failed(self, correlation: int, error: QuiverError) -> None:
        if isinstance(error, NotOwner) and self._moves:
            self._begin_again(correlation)
            return
        call = self._ended(correlation)
        if isinstance(error, ShuttingDown) and self._moves and not self._is_ending:
            error = self._unavailable("is moving to another broker")
        if not call.future.done():
            call.future.set_exception(error)

    def _ended(self, correlation: int) -> _Call:
        call = self._calls.pop(correlation, None)
        if call is None:
            raise ProtocolError(problem=f"{self._name} sent a result for no call")
        self._call_bytes -= call.size
        self._wake()
        self._close_left()
        return call

    def _begin_again(self, correlation: int) -> None:
        """It was not begun there. Nobody is asked again for a caller that no longer waits."""
        call = self._calls[correlation]
        if call.channel is self._channel:
            self._pause()
            self.leave()
        call.channel = None
        if call.future.done() or self._is_ending or self._is_closed:
            self._fail([correlation], "has stopped")
        else:
            self._unsent.append((correlation, call.request, call.payload, self._revision()))
            self._unsent.sort(key=_order)
            self._unsent_bytes += call.size
            self._connect()
        self._close_left()

    def _close_left(self) -> None:
        if not self._left:
            return
        used = {id(call.channel) for call in self._calls.values()}
        for channel in [channel for channel in self._left if id(channel) not in used]:
            self._left.remove(channel)
            self._nodes.pop(channel, None)
            channel.close()

    def _wake(self) -> None:
        while self._awaiting_room and (self._call_bytes < REQUEST_BYTES or self._is_closed):
            waiting = self._awaiting_room.popleft()
            if not waiting.done():
                waiting.set_result(None)
                if not self._is_closed:
                    return


def _order(unsent: tuple[int, PeerRequest[Any], Sequence[Buffer], int]) -> int:
    return unsent[0]

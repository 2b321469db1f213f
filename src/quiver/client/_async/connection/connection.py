"""One connection to a broker: handshake, many requests in flight, responses in any order."""

import logging
import socket
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from quiver.client._backend_async import Buffer, Gate, Lock, Stream, Waiter
from quiver.client.connection.fork import watch_forks
from quiver.model.errors import (
    ConnectionLost,
    ForkRefused,
    ProtocolError,
    QuiverError,
    RequestTimeout,
    RequestTooLarge,
    error_from_wire,
)
from quiver.model.limits import MIB, Limits
from quiver.protocol.messages import (
    CODECS,
    ENCODINGS,
    PROTOCOL_VERSION,
    Failure,
    Hello,
    Message,
    Response,
    Welcome,
)
from quiver.protocol.packet import LENGTH_BYTES, NO_CORRELATION, PacketReader, decode_response, encode_packet
from quiver.protocol.preface import PREFACE

_logger = logging.getLogger(__name__)
_END_SECONDS = 5.0
"""How long closing waits for the receiver; one that an interrupt left stuck is abandoned."""
ANY_WORKER = -1
_CORRELATIONS = 2**32 - 1
_EMPTY = memoryview(b"")
_T = TypeVar("_T")

OnAnswer = Callable[[Response | QuiverError, memoryview], None]
"""Called once, where responses are received: it must be quick and must not wait."""


class Outbound(NamedTuple):
    request: Message
    payload: Buffer | None = None
    on_answer: OnAnswer | None = None
    """None for requests without a response."""


class Reply(NamedTuple):
    answer: Response
    payload: memoryview


def _allocate(size: int) -> memoryview:
    return memoryview(np.empty(size, np.uint8).data)


def _described(error: RequestTooLarge) -> str:
    """The error for a peer whose first length is impossible: the first four letters of an HTTP response are one."""
    length = int(error.details["size"]) - LENGTH_BYTES
    if length.to_bytes(LENGTH_BYTES, "little") == b"HTTP":
        return "speaks HTTP; give the native port of the broker instead (7481 unless configured)"
    return "is not a Quiver broker"


class AsyncConnection:
    """Every request gets exactly one result: the broker's response, or the error that ended the connection."""

    def __init__(self, sock: socket.socket, address: str) -> None:
        self.address = address
        self.welcome: Welcome
        self._stream = Stream(sock)
        self._packets = PacketReader(Limits().fetch_bytes + MIB, allocate=_allocate)
        self._waiting: dict[int, OnAnswer] = {}
        self._correlation = 0
        self._sending = Lock()
        self._error: QuiverError | None = None
        self._reader = self._stream.reader(self, "quiver-connection")
        watch_forks(self)

    async def open(self, client_id: str, timeout: float, worker: int = ANY_WORKER) -> None:
        """Does the handshake. Raises ConnectionLost, or the broker's own refusal."""
        self._stream.tune()
        self._reader.start()
        try:
            await self._stream.send([PREFACE])
            hello = Hello([PROTOCOL_VERSION], list(CODECS), list(ENCODINGS), client_id, worker)
            answer = (await self.call(hello, timeout)).answer
            if isinstance(answer, Failure):
                raise error_from_wire(answer.code, answer.message, answer.retryable)
            if not isinstance(answer, Welcome):
                raise ProtocolError(problem=f"the broker responded to the handshake with {type(answer).__name__}")
            self.welcome = answer
        except RequestTimeout:
            await self.close()
            raise ConnectionLost(address=self.address, problem="no response to the handshake") from None
        except OSError as error:
            await self.close()
            raise ConnectionLost(address=self.address, problem=error.strerror or str(error)) from None
        except BaseException:
            await self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._error is None

    @property
    def is_sending(self) -> bool:
        return self._sending.locked()

    @property
    def lost_by(self) -> QuiverError:
        """What ended it."""
        assert self._error is not None, "it is open"
        return self._error

    async def send(self, requests: Sequence[Outbound], *, is_waited_for: bool = False) -> None:
        """Sends requests one after the other in one write. Never raises: a lost connection answers them.

        `is_waited_for`: the caller calls `wait` next, or soon enough, and receives the answers there.
        """
        async with self._sending:
            buffers: list[Buffer] = []
            for request, payload, on_answer in requests:
                correlation = self._correlation = self._correlation % _CORRELATIONS + 1
                if on_answer is not None:
                    self._waiting[correlation] = on_answer
                buffers.append(encode_packet(correlation, request, 0 if payload is None else len(payload)))
                if payload is not None:
                    buffers.append(payload)
            if self._error is None:
                try:
                    await self._stream.send(buffers)
                except OSError as error:
                    self.fail(self._lost(error))
                except BaseException:
                    self.fail(ConnectionLost(address=self.address, problem="sending was interrupted"))
                    raise
        if self._error is not None:
            self.fail(self._error)
        elif not is_waited_for:
            self._reader.expect()

    async def wait(self, gate: Gate[_T], timeout: float | None) -> _T:
        """Waits for a gate that an answer opens. In a thread, answers are received there: it is woken once."""
        return await self._reader.wait(gate, timeout)

    async def call(self, request: Message, timeout: float | None) -> Reply:
        """The response to one request, also a Failure. Raises RequestTimeout or ConnectionLost without a response."""
        waiter: Waiter[tuple[Response | QuiverError, memoryview]] = Waiter()
        on_answer: OnAnswer = lambda answer, payload: waiter.set((answer, payload))  # noqa: E731
        await self.send([Outbound(request, None, on_answer)], is_waited_for=True)
        try:
            got = await self.wait(waiter, timeout)
        except TimeoutError:
            raise RequestTimeout(seconds=timeout) from None
        assert got is not None
        answer, payload = got
        if isinstance(answer, QuiverError):
            raise answer
        return Reply(answer, payload)

    def fail(self, error: QuiverError) -> None:
        """Ends the connection; the error is the result of everything that waits."""
        if self._error is None:
            self._error = error
            self._stream.abort()
            self._reader.end()
        while self._waiting:
            try:
                _, on_answer = self._waiting.popitem()
            except KeyError:
                return
            on_answer(self._error, _EMPTY)

    async def finish(self, timeout: float) -> None:
        """Sends nothing more, takes the responses to requests in flight, and closes."""
        self._stream.end_sending()
        self._reader.expect()
        await self._reader.join(timeout)
        await self.close()

    async def close(self) -> None:
        self.fail(ConnectionLost(address=self.address, problem="the connection was closed"))
        await self._reader.join(_END_SECONDS)
        self._reader.close()

    def after_fork(self, parent_pid: int) -> None:
        """It cannot be used in the child. Only the descriptor is closed: the parent still uses the same socket."""
        self._error = ForkRefused(pid=parent_pid)
        self._waiting, self._sending = {}, Lock()
        self._reader.after_fork()

    # for the reader of the socket

    @property
    def has_requests(self) -> bool:
        """Whether answers are still to come."""
        return bool(self._waiting)

    def get_buffer(self) -> memoryview:
        return self._packets.get_buffer()

    def received(self, count: int) -> None:
        """So many bytes lie in the buffer."""
        if count == 0:
            raise ConnectionLost(address=self.address, problem="the broker closed the connection")
        for correlation, message, payload in self._packets.received(count):
            self._take_answer(correlation, decode_response(message), payload)

    def receiving_failed(self, error: BaseException) -> None:
        """Ends the connection by what happened while it was received from."""
        if isinstance(error, OSError):
            self.fail(self._lost(error))
        elif isinstance(error, RequestTooLarge):
            self.fail(ProtocolError(problem=f"{self.address} {_described(error)}"))
        elif isinstance(error, QuiverError):
            self.fail(error)
        else:
            if isinstance(error, Exception):
                _logger.error("an answer from %s could not be taken", self.address, exc_info=error)
            self.fail(ConnectionLost(address=self.address, problem="receiving was interrupted"))

    def _take_answer(self, correlation: int, answer: Response, payload: memoryview) -> None:
        if correlation == NO_CORRELATION:
            if isinstance(answer, Failure):
                raise error_from_wire(answer.code, answer.message, answer.retryable)
            raise ProtocolError(problem=f"{type(answer).__name__} belongs to no request")
        on_answer = self._waiting.pop(correlation, None)
        if on_answer is not None:
            try:
                on_answer(answer, payload)
            except Exception:
                raise
            except BaseException:  # an interrupt: what it may have missed is told by the end of the connection
                self._waiting[correlation] = on_answer
                raise

    def _lost(self, error: OSError) -> ConnectionLost:
        return ConnectionLost(address=self.address, problem=error.strerror or str(error) or "it broke")

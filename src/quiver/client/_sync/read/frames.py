# Generated from quiver/client/_async by scripts/unasync.py: do not edit.
"""Stored frames and offsets by topic id: `q.frames`. For programs that decode frames, such as the Spark source."""

from collections.abc import Mapping
from typing import Any

from quiver.client._backend_sync import Waiter
from quiver.client._sync.connection.connection import Outbound
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client._sync.read.offsets import find_offsets
from quiver.client.read.fetched_frames import FetchedFrames
from quiver.client.read.isolation import READ_COMMITTED, is_committed
from quiver.client.size_option import size_option
from quiver.model.errors import QuiverError, RequestTimeout, error_from_wire
from quiver.model.limits import MIB, Limits
from quiver.model.numbers import Size
from quiver.model.position import parse_position
from quiver.model.times import Duration, parse_duration_ms, wait_seconds
from quiver.protocol.messages import Failure, Fetch, Fetched, FetchPart, Response

_Answered = tuple[Response | QuiverError, memoryview]
_NO_BYTES = memoryview(b"")


class PendingFetch:
    """A fetch that was sent. Every failure is raised by `result`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._waiter: Waiter[_Answered] = Waiter()

    def answered(self, answer: Response | QuiverError, payload: memoryview) -> None:
        self._waiter.set((answer, payload))

    def result(self, timeout: Duration | None = None) -> FetchedFrames:
        """The frames, or raises the error. Raises RequestTimeout if there was no response in time."""
        seconds = wait_seconds(timeout)
        try:
            got = self._waiter.wait(seconds)
        except TimeoutError:
            raise RequestTimeout(f"the broker at {self._address} did not respond within {seconds:g} s") from None
        assert got is not None
        return _frames_of(*got)


class Frames:
    """Topics are addressed by id: a topic that was deleted and created again is another one."""

    def __init__(self, broker: ReconnectingConnection) -> None:
        self._broker = broker

    def fetch(
        self,
        topic_id: int,
        partition: int,
        offset: int,
        *,
        max_bytes: Size = 8 * MIB,
        max_wait: Duration = 0,
        isolation: str = READ_COMMITTED,
        headers_only: bool = False,
    ) -> FetchedFrames:
        """Frames of a partition from the one with `offset` on; waits for at most `max_wait` if there are none.

        With `headers_only` the buffer has the headers of the frames without their bodies, 88 bytes each.
        A lost connection is retried within the client's timeout. Raises OffsetOutOfRange, TopicNotFound,
        PartitionNotFound, CorruptData.
        """
        size = size_option("max_bytes", max_bytes, 1, Limits().fetch_bytes)
        request = _request(FetchPart(topic_id, partition, offset, size), max_wait, isolation, headers_only)
        reply = self._broker.of_partition(topic_id, partition).call(request)
        return _frames_of(reply.answer, reply.payload)

    def begin_fetch(
        self,
        topic_id: int,
        partition: int,
        offset: int,
        *,
        max_bytes: Size = 8 * MIB,
        max_wait: Duration = 0,
        isolation: str = READ_COMMITTED,
        headers_only: bool = False,
    ) -> PendingFetch:
        """Sends a fetch without waiting for the response, so that one is in flight while the last one is decoded.

        Nothing is retried, and only a wrong argument is raised here: see `PendingFetch.result`.
        """
        size = size_option("max_bytes", max_bytes, 1, Limits().fetch_bytes)
        request = _request(FetchPart(topic_id, partition, offset, size), max_wait, isolation, headers_only)
        pending = PendingFetch(self._broker.address)
        try:
            connection = self._broker.of_partition(topic_id, partition).connection()
        except QuiverError as error:
            pending.answered(error, _NO_BYTES)
        else:
            connection.send([Outbound(request, None, pending.answered)])
        return pending

    def offsets(
        self, topic_id: int, positions: Mapping[int, Any], *, isolation: str = READ_COMMITTED
    ) -> dict[int, int]:
        """The current offset of a position per partition: earliest, latest, or a time.

        The latest is the next to be written or, with read_committed, where the first open transaction begins.
        """
        now_ms = self._broker.clock.now_ms()
        wanted = {partition: parse_position(at, now_ms, "at") for partition, at in positions.items()}
        return find_offsets(self._broker, topic_id, wanted, read_committed=is_committed(isolation))


def _request(part: FetchPart, max_wait: Duration, isolation: str, headers_only: bool) -> Fetch:
    wait_ms = parse_duration_ms(max_wait, "max_wait")
    return Fetch([part], wait_ms, 1, part.max_bytes, is_committed(isolation), headers_only)


def _frames_of(answer: Response | QuiverError, payload: memoryview) -> FetchedFrames:
    if isinstance(answer, Fetched) and len(answer.parts) == 1:
        [part] = answer.parts
        if part.error is None:
            ends = part.log_start, part.high_watermark, part.last_stable
            return FetchedFrames(payload, *ends, part.aborted, part.headers_only)
        answer = part.error
    if isinstance(answer, Failure):
        raise error_from_wire(answer.code, answer.message, answer.retryable)
    raise answer if isinstance(answer, QuiverError) else unexpected(answer)

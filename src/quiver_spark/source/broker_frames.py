"""The frames of a slice through the broker: long fetches, the next one under way while one is decoded."""

from collections.abc import Iterator
from typing import NamedTuple

from quiver.client._backend_sync import Waiter, sleep
from quiver.client._sync.connection.connection import Outbound
from quiver.client._sync.connection.reconnecting import ReconnectingConnection, unexpected
from quiver.client.backoff import backoff_seconds
from quiver.model.errors import (
    ConnectionLost,
    InvalidFrame,
    OffsetOutOfRange,
    QuiverError,
    RequestTimeout,
    TopicNotFound,
    error_from_wire,
)
from quiver.model.limits import KIB
from quiver.model.position import EARLIEST
from quiver.protocol.messages import (
    Answer,
    Failure,
    Fetch,
    Fetched,
    FetchedPart,
    FetchPart,
    ListOffsets,
    OffsetPart,
    Offsets,
)
from quiver.reader.frame_version import check_version
from quiver.reader.stored_frames import StoredFrame
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.read import split_frames
from quiver_spark.broker_link import broker_link
from quiver_spark.source.data_loss import lost
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice
from quiver_spark.source.unreadable import corrupt

_WAIT_MS = 500
_SPARE_BYTES = 256 * KIB


class _Answered(NamedTuple):
    part: FetchedPart
    payload: memoryview


def broker_frames(piece: Slice, options: ReadOptions) -> Iterator[StoredFrame]:
    """Frames with messages of the slice that count; an error that names what is missing when some is."""
    return _SliceFetch(piece, options, broker_link(options.bootstrap, options.timeout_seconds)).frames()


class _SliceFetch:
    def __init__(self, piece: Slice, options: ReadOptions, link: ReconnectingConnection) -> None:
        self._piece = piece
        self._options = options
        self._link = link
        self._offset = piece.start
        self._deadline = 0.0
        self._failures = 0
        self._bytes_each = piece.size_bytes / piece.offsets if piece.offsets else 0.0

    def frames(self) -> Iterator[StoredFrame]:
        """Each answer's headers are read before its frames are given out, so the next request goes out first."""
        self._made_progress()
        pending = self._ask() if self._offset < self._piece.stop else None
        while pending is not None:
            answered = self._answer(pending)
            frames = [] if answered is None else self._take(answered)
            pending = self._ask() if self._offset < self._piece.stop else None
            yield from frames

    def _ask(self) -> "Waiter[tuple[Answer | QuiverError, memoryview]]":
        """Sends a fetch; whatever goes wrong is an answer too."""
        piece, waiter = self._piece, Waiter[tuple[Answer | QuiverError, memoryview]]()
        wanted = self._options.fetch_bytes
        if self._bytes_each:
            expected = int((piece.stop - self._offset) * self._bytes_each * 1.1) + _SPARE_BYTES
            wanted = min(wanted, expected)
        part = FetchPart(piece.topic_id, piece.partition, self._offset, wanted)
        request = Fetch([part], _WAIT_MS, 1, wanted, self._options.committed)
        try:
            connection = self._link.connection()
        except QuiverError as error:
            waiter.set((error, memoryview(b"")))
            return waiter
        connection.send([Outbound(request, None, lambda answer, payload: waiter.set((answer, payload)))])
        return waiter

    def _answer(self, waiter: "Waiter[tuple[Answer | QuiverError, memoryview]]") -> _Answered | None:
        """None when nothing came and another try may help."""
        try:
            got = waiter.wait(self._options.timeout_seconds)
        except TimeoutError:
            raise RequestTimeout(
                f"the broker at {self._link.address} did not answer within {self._options.timeout_seconds:g} s"
                f" while reading {self._piece}"
            ) from None
        assert got is not None
        answer, payload = got
        error = _error_of(answer)
        if error is None and isinstance(answer, Fetched) and len(answer.parts) == 1:
            return _Answered(answer.parts[0], payload)
        if error is None:
            raise unexpected(answer)
        if isinstance(error, OffsetOutOfRange) and self._skip_removed():
            return None
        if isinstance(error, TopicNotFound):
            self._lose_rest(f"topic {self._piece.topic!r} was deleted")
            return None
        self._pause_after(error)
        return None

    def _take(self, answered: _Answered) -> list[StoredFrame]:
        """The frames of an answer that count; goes on behind all of them."""
        part, payload = answered
        if not payload:
            self._found_nothing(part)
            return []
        self._made_progress()
        left_out = AbortedFrames(part.aborted if self._options.committed else ())
        frames: list[StoredFrame] = []
        begun_at = self._offset
        try:
            for position, header in split_frames(payload):
                if header.next_offset <= self._offset:
                    left_out.hides(header)
                    continue
                if not left_out.hides(header) and header.base_offset < self._piece.stop:
                    frames.append(StoredFrame(payload, position, header))
                self._offset = header.next_offset
        except InvalidFrame as error:
            if self._offset == begun_at:
                check_version(f"{self._piece.topic}-{self._piece.partition}", payload[:3])
                raise corrupt(self._piece, error.message, begun_at) from None
        return frames

    def _found_nothing(self, part: FetchedPart) -> None:
        """What is left is a hole when the log goes on behind it. Otherwise it ends too early, for now or for good."""
        end = part.last_stable if self._options.committed else part.high_watermark
        if end >= self._piece.stop:
            self._offset = self._piece.stop
        elif self._link.clock.monotonic() > self._deadline:
            self._lose_rest(f"the partition ends at {end} now, it lost messages")

    def _lose_rest(self, why: str) -> None:
        lost(self._piece._replace(start=self._offset), self._piece.stop, why, fails=self._fails)
        self._offset = self._piece.stop

    def _skip_removed(self) -> bool:
        """Goes on behind what retention removed, if that is why an offset is out of range and it may be left out."""
        piece = self._piece
        part = OffsetPart(piece.topic_id, piece.partition, EARLIEST)
        answer = self._link.call(ListOffsets([part])).answer
        if not isinstance(answer, Offsets) or answer.offsets[0].error is not None:
            return False
        earliest = answer.offsets[0].offset
        if earliest <= self._offset:
            return False
        stop = min(earliest, piece.stop)
        why = f"retention removed them, the partition begins at {earliest}"
        lost(piece._replace(start=self._offset), stop, why, fails=self._fails)
        self._offset = stop
        return True

    @property
    def _fails(self) -> bool:
        return self._options.fail_on_data_loss

    def _made_progress(self) -> None:
        self._failures = 0
        self._deadline = self._link.clock.monotonic() + self._options.timeout_seconds

    def _pause_after(self, error: QuiverError) -> None:
        wait = backoff_seconds(self._failures, self._link.randomness.jitter())
        if not error.retryable or self._link.clock.monotonic() + wait > self._deadline:
            if isinstance(error, ConnectionLost):
                raise ConnectionLost(f"{error.message}; is the broker running there (option bootstrap)?") from None
            raise error
        sleep(wait)
        self._failures += 1


def _error_of(answer: Answer | QuiverError) -> QuiverError | None:
    if isinstance(answer, QuiverError):
        return answer
    if isinstance(answer, Fetched) and answer.parts and answer.parts[0].error is not None:
        answer = answer.parts[0].error
    if isinstance(answer, Failure):
        return error_from_wire(answer.code, answer.message, answer.retryable)
    return None

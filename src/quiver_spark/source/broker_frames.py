"""The frames of a slice, fetched from the broker: the next fetch is in flight while one is decoded."""

import time
from collections.abc import Callable, Iterator

import quiver
from quiver.client import FetchedFrames, PendingFetch
from quiver.model.errors import (
    ConnectionLost,
    InvalidFrame,
    OffsetOutOfRange,
    QuiverError,
    RequestTimeout,
    TopicNotFound,
)
from quiver.model.limits import KIB
from quiver.model.position import EARLIEST
from quiver.reader.frame_version import check_version
from quiver.reader.stored_frame import StoredFrame
from quiver.records.header import FrameHeader
from quiver.system.backoff import Backoff
from quiver.system.clock import SystemClock
from quiver.system.randomness import SystemRandomness
from quiver_spark.broker_client import broker_client, unreachable
from quiver_spark.source.data_loss import lost
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice
from quiver_spark.source.unreadable import corrupt

WantsBody = Callable[[FrameHeader], bool]
_MAX_WAIT = "500ms"
_SPARE_BYTES = 256 * KIB
"""What a fetch asks for beyond its estimate: the next frame rarely ends exactly there."""
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0


def broker_frames(slice_: Slice, options: ReadOptions, wants_body: WantsBody | None = None) -> Iterator[StoredFrame]:
    """The visible frames with messages of the slice. An error names the messages that are missing, if any.

    With `wants_body` only headers are fetched, up to the first frame whose body is wanted.
    """
    client = broker_client(options.bootstrap, options.timeout_seconds)
    return _SliceFetch(slice_, options, client, wants_body).frames()


class _SliceFetch:
    def __init__(
        self, slice_: Slice, options: ReadOptions, client: quiver.Client, wants_body: WantsBody | None
    ) -> None:
        self._slice = slice_
        self._options = options
        self._wants_body = wants_body
        """None once bodies are fetched."""
        self._isolation = "read_committed" if options.committed else "read_uncommitted"
        self._client = client
        self._clock = SystemClock()
        self._backoff = Backoff(
            _FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, jitter=0.5, randomness=SystemRandomness()
        )
        self._offset = slice_.start
        self._deadline = 0.0
        self._bytes_each = slice_.size_bytes / slice_.offsets if slice_.offsets else 0.0

    def frames(self) -> Iterator[StoredFrame]:
        """Reads the headers of a response before it yields the frames, so that the next request is sent first."""
        self._made_progress()
        pending = self._begin() if self._offset < self._slice.stop else None
        while pending is not None:
            fetched = self._result(pending)
            frames = [] if fetched is None else self._take(fetched)
            pending = self._begin() if self._offset < self._slice.stop else None
            yield from frames

    def _begin(self) -> PendingFetch:
        slice_, wanted = self._slice, self._options.fetch_bytes
        if self._bytes_each:
            expected = int((slice_.stop - self._offset) * self._bytes_each * 1.1) + _SPARE_BYTES
            wanted = min(wanted, expected)
        return self._client.frames.begin_fetch(
            slice_.topic_id,
            slice_.partition,
            self._offset,
            max_bytes=wanted,
            max_wait=_MAX_WAIT,
            isolation=self._isolation,
            headers_only=self._wants_body is not None,
        )

    def _result(self, pending: PendingFetch) -> FetchedFrames | None:
        """None when the fetch failed and a retry may help, or when the rest of the slice is gone."""
        try:
            return pending.result(self._options.timeout_seconds)
        except RequestTimeout as error:
            raise RequestTimeout(f"{error.message} while reading {self._slice}") from None
        except TopicNotFound:
            self._lose_rest(f"topic {self._slice.topic!r} was deleted")
        except QuiverError as error:
            if not (isinstance(error, OffsetOutOfRange) and self._skip_removed()):
                self._pause_after(error)
        return None

    def _take(self, fetched: FetchedFrames) -> list[StoredFrame]:
        """The visible frames of a response; moves the offset past all of them."""
        if not fetched.buffer:
            self._found_nothing(fetched)
            return []
        self._made_progress()
        frames: list[StoredFrame] = []
        begun_at = self._offset
        try:
            for position, header, is_visible in fetched.headers():
                if header.next_offset <= self._offset:
                    continue
                if is_visible and header.base_offset < self._slice.stop:
                    if fetched.headers_only and self._wants_body is not None and self._wants_body(header):
                        self._wants_body = None
                        break
                    frames.append(StoredFrame(fetched.buffer, position, header))
                self._offset = header.next_offset
        except InvalidFrame as error:
            if self._offset == begun_at:
                check_version(f"{self._slice.topic}-{self._slice.partition}", fetched.buffer[:3])
                raise corrupt(self._slice, error.message, begun_at) from None
        return frames

    def _found_nothing(self, fetched: FetchedFrames) -> None:
        """The rest has no messages if the log continues after it; otherwise the log ends early, perhaps for now."""
        end = fetched.readable_end(self._isolation)
        if end >= self._slice.stop:
            self._offset = self._slice.stop
        elif self._clock.monotonic() > self._deadline:
            self._lose_rest(f"the partition ends at {end} now, it lost messages")

    def _lose_rest(self, why: str) -> None:
        lost(self._slice._replace(start=self._offset), self._slice.stop, why, fails=self._options.fail_on_data_loss)
        self._offset = self._slice.stop

    def _skip_removed(self) -> bool:
        """Skips what retention removed, if that is why the offset is out of range and it may be left out."""
        slice_ = self._slice
        earliest = self._client.frames.offsets(slice_.topic_id, {slice_.partition: EARLIEST})[slice_.partition]
        if earliest <= self._offset:
            return False
        stop = min(earliest, slice_.stop)
        why = f"retention removed them, the partition begins at {earliest}"
        lost(slice_._replace(start=self._offset), stop, why, fails=self._options.fail_on_data_loss)
        self._offset = stop
        return True

    def _made_progress(self) -> None:
        self._backoff.reset()
        self._deadline = self._clock.monotonic() + self._options.timeout_seconds

    def _pause_after(self, error: QuiverError) -> None:
        pause = self._backoff.next_seconds()
        if not error.retryable or self._clock.monotonic() + pause > self._deadline:
            raise unreachable(error) if isinstance(error, ConnectionLost) else error
        time.sleep(pause)

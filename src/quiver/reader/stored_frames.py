"""The stored frames of a range of offsets."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from quiver.model.limits import KIB, MIB
from quiver.reader.log_reader import FrameBytes, LogReader
from quiver.reader.stored_frame import StoredFrame
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import FrameHeader

_BODY_WINDOW = 4 * MIB
_HEADER_WINDOW = 16 * KIB
_READ_BYTES = 1024 * MIB


class FrameRange(NamedTuple):
    """What to read from a log."""

    start: int
    stop: int
    left_out: AbortedFrames
    """Frames without messages for the reader. One that is used for several ranges gets every frame in order."""
    wants_body: Callable[[FrameHeader], bool] = lambda header: True
    """Only the header of other frames is read."""


def stored_frames(log: LogReader, wanted: FrameRange) -> Iterator[StoredFrame]:
    """Every frame with messages of the range, in order; `log` has been refreshed.

    Raises OffsetOutOfRange if retention has removed a part of the range; `offset` and `earliest` in its details say
    which.
    """
    scan = _RangeScan(log, wanted)
    while (stored := scan.next_bytes()) is not None:
        with stored:
            yield from scan.frames(stored)


class _RangeScan:
    def __init__(self, log: LogReader, wanted: FrameRange) -> None:
        self._log = log
        self._wanted = wanted
        self._offset = wanted.start

    def next_bytes(self) -> FrameBytes | None:
        """The next part of the range. If compaction or retention has removed a file, the files are listed once
        more."""
        if self._offset >= self._wanted.stop:
            return None
        try:
            return self._read()
        except FileNotFoundError:
            self._log.refresh_files()
            return self._read()

    def _read(self) -> FrameBytes | None:
        return self._log.read(self._offset, max_bytes=_READ_BYTES, end_offset=self._wanted.stop)

    def frames(self, stored: FrameBytes) -> Iterator[StoredFrame]:
        """The frames up to the first unreadable one: the next read raises what is wrong with it."""
        stop, left_out, wants_body = self._wanted.stop, self._wanted.left_out, self._wanted.wants_body
        headers, bodies = stored.frames(_HEADER_WINDOW), stored.frames(_BODY_WINDOW)
        for position, header in headers.walk(stored.position):
            if header is None:
                return
            if header.base_offset >= stop:
                self._offset = stop
                return
            is_left_out, is_new = left_out.hides(header), header.next_offset > self._offset
            self._offset = max(self._offset, header.next_offset)
            if is_new and not is_left_out:
                if wants_body(header):
                    yield StoredFrame(bodies.bytes_at(position, header.frame_bytes), 0, header)
                else:
                    yield StoredFrame(headers.bytes_at(position, 0), 0, header)

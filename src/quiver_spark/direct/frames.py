"""The frames of a slice from segment files."""

from collections.abc import Callable, Iterator
from pathlib import Path

from quiver.log.segment.frame_scan import FrameFile
from quiver.log.segment_view import Extent
from quiver.model.errors import CorruptData
from quiver.model.limits import KIB, MIB
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import FrameHeader
from quiver_spark.direct.log import DirectLog
from quiver_spark.source.data_loss import lost
from quiver_spark.source.frames import StoredFrame
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

LOGS = "logs"
_BODY_WINDOW = 4 * MIB
_HEADER_WINDOW = 16 * KIB
_EXTENT_BYTES = 1024 * MIB


def direct_frames(
    piece: Slice, options: ReadOptions, wants_body: Callable[[FrameHeader], bool]
) -> Iterator[StoredFrame]:
    """Frames with messages of the slice that count. Bodies are read where they are wanted, headers everywhere."""
    assert options.path is not None
    log = DirectLog(Path(options.path) / LOGS / piece.log, f"{piece.topic}-{piece.partition}")
    log.look_at_segments()
    try:
        yield from _SliceScan(piece, options, log, wants_body).frames()
    finally:
        log.forget_files()


class _SliceScan:
    def __init__(
        self, piece: Slice, options: ReadOptions, log: DirectLog, wants_body: Callable[[FrameHeader], bool]
    ) -> None:
        self._piece = piece
        self._fails = options.fail_on_data_loss
        self._log = log
        self._wants_body = wants_body
        self._left_out = AbortedFrames(piece.aborted if options.committed else ())
        self._offset = piece.start

    def frames(self) -> Iterator[StoredFrame]:
        while self._offset < self._piece.stop:
            extent = self._next_extent()
            if extent is None:
                return
            try:
                yield from self._walk(extent)
            finally:
                self._log.open_files.unpin(extent.file)

    def _next_extent(self) -> Extent | None:
        """The bytes from an offset on; looks again at the files when those it knew are gone."""
        log, piece = self._log, self._piece
        for is_second in (False, True):
            if self._offset < log.start_offset:
                self._skip_removed(log.start_offset)
                if self._offset >= piece.stop:
                    return None
            try:
                return log.read(self._offset, max_bytes=_EXTENT_BYTES, end_offset=piece.stop)
            except FileNotFoundError:
                if is_second:
                    raise
                log.look_at_segments()
            except CorruptData:
                self._check_version()
                raise
        return None

    def _skip_removed(self, start: int) -> None:
        stop = min(start, self._piece.stop)
        why = f"retention removed them, the partition begins at {start}"
        lost(self._piece._replace(start=self._offset), stop, why, fails=self._fails)
        self._offset = stop

    def _check_version(self) -> None:
        for damage in self._log.damage:
            for segment in self._log.segments:
                if segment.base_offset == damage.segment_base:
                    with segment.frames() as frames:
                        self._log.check_version(frames, damage.position)

    def _walk(self, extent: Extent) -> Iterator[StoredFrame]:
        """The frames of an extent up to the first that cannot be read: the next look says what is wrong with it."""
        files, end = self._log.open_files.files, extent.position + extent.length
        headers = FrameFile(files, extent.fd, end, window_bytes=_HEADER_WINDOW)
        bodies = FrameFile(files, extent.fd, end, window_bytes=_BODY_WINDOW)
        for position, header in headers.walk(extent.position):
            if header is None or header.base_offset >= self._piece.stop:
                self._offset = self._offset if header is None else self._piece.stop
                return
            is_left_out, is_new = self._left_out.hides(header), header.next_offset > self._offset
            self._offset = max(self._offset, header.next_offset)
            if is_new and not is_left_out:
                if self._wants_body(header):
                    yield StoredFrame(bodies.bytes_at(position, header.frame_bytes), 0, header)
                else:
                    yield StoredFrame(headers.bytes_at(position, 0), 0, header)

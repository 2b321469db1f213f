"""The frames of a slice from segment files."""

from collections.abc import Callable, Iterator

from quiver.model.errors import OffsetOutOfRange
from quiver.reader.data_directory import DataDirectory
from quiver.reader.stored_frame import StoredFrame
from quiver.reader.stored_frames import FrameRange, stored_frames
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import FrameHeader
from quiver_spark.source.data_loss import lost
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice


def direct_frames(
    slice_: Slice, options: ReadOptions, wants_body: Callable[[FrameHeader], bool]
) -> Iterator[StoredFrame]:
    """The visible frames with messages of the slice; bodies are read only where they are wanted."""
    assert options.path is not None
    log = DataDirectory(options.path).log(slice_.log, f"{slice_.topic}-{slice_.partition}")
    log.refresh_files()
    start = slice_.start
    try:
        while start < slice_.stop:
            left_out = _aborted(slice_, start) if options.committed else AbortedFrames(())
            try:
                yield from stored_frames(log, FrameRange(start, slice_.stop, left_out, wants_body))
                return
            except OffsetOutOfRange as error:
                start = _after_removed(slice_, error, fails=options.fail_on_data_loss)
    finally:
        log.close()


def _aborted(slice_: Slice, start: int) -> AbortedFrames:
    """A transaction whose marker is gone is over: the marker cannot say so any more."""
    return AbortedFrames([(producer, first) for producer, first, marker in slice_.aborted if marker >= start])


def _after_removed(slice_: Slice, error: OffsetOutOfRange, *, fails: bool) -> int:
    """The first offset that retention left, if the removed messages may be skipped."""
    offset, earliest = int(error.details["offset"]), int(error.details["earliest"])
    stop = min(earliest, slice_.stop)
    why = f"retention removed them, the partition begins at {earliest}"
    lost(slice_._replace(start=offset), stop, why, fails=fails)
    return stop

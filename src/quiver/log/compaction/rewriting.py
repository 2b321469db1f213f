"""The second half of a pass: the frames that a new segment is made of."""

from collections.abc import Iterator, Sequence

from quiver.log.compaction.row_flags import unpacked
from quiver.log.compaction.survey import SegmentSurvey
from quiver.records.body import open_body
from quiver.records.header import StampedFrame
from quiver.records.thin import thin_frame


def surviving_frames(segments: Sequence[SegmentSurvey], *, frame_bytes: int) -> Iterator[StampedFrame]:
    """What is left of some segments: whole frames unchanged, others without their removed messages. Offsets stay."""
    for segment in segments:
        if segment.kept_count:
            yield from _surviving(segment, frame_bytes)


def _surviving(segment: SegmentSurvey, frame_bytes: int) -> Iterator[StampedFrame]:
    kept, row = unpacked(segment.kept, segment.record_count), 0
    for frame in segment.source.frames():
        header = frame.header
        rows = kept[row : row + header.record_count]
        row += header.record_count
        if rows.all():
            yield frame
        elif rows.any():
            batch = open_body(memoryview(frame.body), header, trusted=True)
            yield from thin_frame(header, batch, rows, max_bytes=frame_bytes)

"""The reading side of a log of segments. Reads run while it is written, on the loop or in threads, without a lock.

Readers use the published tuple of segments and the published tail, which are always replaced as a whole, so a frame
is seen entirely or not at all. A segment that is removed meanwhile stays readable through its pinned file.
"""

from bisect import bisect_right
from threading import Lock
from typing import NamedTuple

from quiver.log.files.open_files import OpenFile, OpenFiles
from quiver.log.segment.damage import Damage
from quiver.log.segment.index import DamagedIndex
from quiver.log.segment.segment import FoundFrame, Gap, Segment
from quiver.model.errors import OffsetOutOfRange
from quiver.records.header import HEADER_BYTES

_REMEMBERED_POSITIONS = 128


class Tail(NamedTuple):
    """The end of a log, as one value."""

    end_offset: int
    segment: Segment | None
    size: int
    last_append_time_ms: int = 0
    max_timestamp_ms: int = -(2**63)
    last_epoch: int = -1
    frames_end: int = 0
    """After the last frame; `end_offset` may be above, where offsets were given out and lost."""


class Extent(NamedTuple):
    """Bytes of a pinned file; the caller unpins the file."""

    file: OpenFile
    fd: int
    position: int
    length: int
    end_offset: int
    """After the last frame that is whole, as far as that is known without a search."""


class SegmentView:
    """The published state of a log, and reads of it by offset and by time."""

    def __init__(self, log_id: str, open_files: OpenFiles) -> None:
        self.log_id = log_id
        self.open_files = open_files
        self.segments: tuple[Segment, ...] = ()
        self.tail = Tail(0, None, 0)
        self.damage: list[Damage] = []
        self._positions: dict[int, tuple[Segment, int]] = {}
        self._positions_lock = Lock()

    @property
    def start_offset(self) -> int:
        segments = self.segments
        return segments[0].base_offset if segments else self.tail.end_offset

    @property
    def end_offset(self) -> int:
        return self.tail.end_offset

    @property
    def size_bytes(self) -> int:
        return sum([segment.size for segment in self.segments])

    def remember(self, offset: int, segment: Segment, position: int) -> None:
        """Remembers where the frame with a base offset begins, so that a read there needs no search."""
        with self._positions_lock:
            positions = self._positions
            if len(positions) >= _REMEMBERED_POSITIONS:
                del positions[next(iter(positions))]
            positions[offset] = (segment, position)

    def position_of(self, offset: int) -> tuple[Segment, int] | None:
        """Where the frame with a base offset begins, if that is remembered."""
        return self._positions.get(offset)

    def forget_positions(self) -> None:
        with self._positions_lock:
            self._positions.clear()

    def read_hot(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> Extent | None:
        """Like `read`, but only for frames that were appended or read just now and need no search; otherwise None.
        Never blocks."""
        tail = self.tail
        known = self._positions.get(offset)
        end: tuple[Segment | None, int] | None = tail.segment, tail.size
        if end_offset is not None and end_offset < tail.end_offset:
            end = self._positions.get(end_offset)
        if known is None or end is None or self.damage:
            return None
        (segment, position), (end_segment, end_position) = known, end
        if segment is not tail.segment or segment is not end_segment or segment.file.fd < 0:
            return None
        if not position < end_position <= position + max_bytes:
            return None
        with segment.frames(window_bytes=HEADER_BYTES) as frames:
            header = frames.header_at(position)
            if header is None or header.base_offset != offset:
                return None
            size = end_position - position
            end_offset = tail.end_offset if end_offset is None else min(end_offset, tail.end_offset)
            return Extent(segment.file, self.open_files.pin(segment.file), position, size, end_offset)

    def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> Extent | None:
        """Bytes from the frame that holds an offset, or the first after it; None when there is none below the end."""
        tail, segments = self.tail, self.segments
        end = tail.end_offset if end_offset is None else min(end_offset, tail.end_offset)
        if not self.start_offset <= offset <= tail.end_offset:
            raise out_of_range(self.log_id, offset, self.start_offset, tail.end_offset)
        if offset < end:
            self._refuse_damaged(offset)
        for index in range(segment_index(segments, offset), len(segments)):
            if offset >= end:
                return None
            segment = segments[index]
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
            found = self._frame_at(segment, offset, next_base if next_base is not None else tail.end_offset)
            if found is None:
                continue
            if found.header.base_offset >= end:
                return None
            limit = self._limit(segment, end, next_base, tail)
            end = end if next_base is None else min(end, next_base)
            return self._extent(segment, found, (limit, end), max_bytes)
        return None

    def offset_for_time(self, time_ms: int) -> int:
        """The first offset appended at or after a time; the end if there is none."""
        tail = self.tail
        if time_ms > tail.last_append_time_ms:
            return tail.end_offset
        for segment in self.segments:
            if segment.times()[1] < time_ms:
                continue
            found, _ = segment.find(
                passed=lambda entry: entry.append_time_ms < time_ms,
                wanted=lambda header: header.append_time_ms >= time_ms,
            )
            if found is not None:
                return found.header.base_offset
        return tail.end_offset

    def _frame_at(self, segment: Segment, offset: int, end_offset: int) -> FoundFrame | None:
        """The first frame of a segment that ends after an offset. Raises CorruptData if it cannot be read."""
        known = self.known_frame(segment, offset)
        if known is not None:
            return known
        found, gaps = segment.find(
            passed=lambda entry: entry.offset <= offset,
            wanted=lambda header: header.base_offset + header.last_offset_delta >= offset,
        )
        for gap in gaps:
            self.note_gap(segment, gap, end_offset)
        if gaps:
            self._refuse_damaged(offset)
        return found

    def known_frame(self, segment: Segment, offset: int) -> FoundFrame | None:
        """The frame that begins at an offset, when it is remembered and still there."""
        known = self._positions.get(offset)
        if known is None or known[0] is not segment:
            return None
        with segment.frames(window_bytes=HEADER_BYTES) as frames:
            header = frames.header_at(known[1])
        return FoundFrame(known[1], header) if header is not None and header.base_offset == offset else None

    def _refuse_damaged(self, offset: int) -> None:
        for damage in self.damage:
            if damage.first_offset <= offset < damage.next_offset:
                raise damage.error()

    def note_gap(self, segment: Segment, gap: Gap, end_offset: int) -> None:
        if any(known.segment_base == segment.base_offset and known.position == gap.position for known in self.damage):
            return
        before = segment.frame_before(gap.position)
        behind = gap.behind
        self.note_damage(
            Damage(
                where=str(segment.path),
                segment_base=segment.base_offset,
                position=gap.position,
                end_position=behind.position if behind else segment.size,
                first_offset=before.header.next_offset if before else segment.base_offset,
                next_offset=behind.header.base_offset if behind else end_offset,
                problem="a frame header fails its checksum",
            )
        )

    def note_damage(self, damage: Damage) -> None:
        self.damage = [*self.damage, damage]
        self.open_files.troubled.add(self.log_id)

    def _limit(self, segment: Segment, end: int, next_base: int | None, tail: Tail) -> int:
        """The position in a segment where a read up to an offset stops."""
        if next_base is not None and next_base <= end:
            return segment.size
        if end == tail.end_offset and segment is tail.segment:
            return tail.size
        found = self.known_frame(segment, end)
        if found is not None:
            return found.position
        found, _ = segment.find(
            passed=lambda entry: entry.offset <= end, wanted=lambda header: header.base_offset >= end
        )
        return found.position if found else segment.size

    def _extent(self, segment: Segment, found: FoundFrame, stop: tuple[int, int], max_bytes: int) -> Extent:
        """From a frame to a position and an offset, or as far as `max_bytes` go."""
        position = found.position
        limit, end_offset = stop
        for damage in self.damage:
            if damage.segment_base == segment.base_offset and position < damage.position:
                limit, end_offset = min((limit, end_offset), (damage.position, damage.first_offset))
        length = limit - position
        if length > max_bytes:
            length, end_offset = self._aligned_length(segment, found, position + max_bytes) or (
                max(found.header.frame_bytes, min(length, max_bytes)),
                found.header.next_offset,
            )
        fd = self.open_files.pin(segment.file)
        return Extent(segment.file, fd, position, length, end_offset)

    def _aligned_length(self, segment: Segment, found: FoundFrame, stop: int) -> tuple[int, int] | None:
        """To the last frame boundary below a position that is in the index, and the offset there; None if there is
        none."""
        try:
            entry = segment.index.last_where(lambda entry: entry.position <= stop)
        except DamagedIndex:
            return None
        if entry is None or entry.position <= found.position:
            return None
        self.remember(entry.offset, segment, entry.position)
        return entry.position - found.position, entry.offset


def out_of_range(log_id: str, offset: int, earliest: int, latest: int) -> OffsetOutOfRange:
    topic, _, partition = log_id.rpartition("/")
    return OffsetOutOfRange(
        offset=offset, topic=topic or "log", partition=partition, earliest=earliest, latest=latest
    )


def segment_index(segments: tuple[Segment, ...], offset: int) -> int:
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)

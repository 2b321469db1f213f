"""Finding and counting the messages of a priority in a log of segments, by the index and without reading bodies."""

from quiver.log.segment.index import NO_MESSAGES, among
from quiver.log.segment.segment import FoundFrame, Segment
from quiver.log.segment_view import SegmentView, segment_index
from quiver.records.header import HEADER_BYTES


class PrioritySearch:
    """Like all reads it runs while the log is written; what is appended meanwhile may or may not be seen."""

    def __init__(self, view: SegmentView) -> None:
        self._view = view

    def knows_of_none(self, offset: int, priorities: int) -> bool:
        """Whether it is certain, without reading, that no frame from an offset on has one of the priorities."""
        segments = self._view.segments
        return not any(segment.priorities & priorities for segment in segments[segment_index(segments, offset) :])

    def has_priority_hot(self, offset: int, priorities: int) -> bool:
        """Whether a frame appended or read just now begins at an offset and is of the priorities. Never blocks."""
        view = self._view
        known = view.position_of(offset)
        if known is None or known[0] is not view.tail.segment or known[0].file.fd < 0:
            return False
        segment, position = known
        with segment.frames(window_bytes=HEADER_BYTES) as frames:
            header = frames.header_at(position)
        return header is not None and header.base_offset == offset and bool(priorities >> header.priority & 1)

    def find_priority(self, offset: int, priorities: int) -> int | None:
        """The first frame that ends after an offset and has one of the priorities; damaged frames are skipped."""
        tail, segments = self._view.tail, self._view.segments
        for index in range(segment_index(segments, offset), len(segments)):
            segment = segments[index]
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else tail.end_offset
            found = self._find_in(segment, offset, priorities, next_base)
            if found is not None:
                base_offset = found.header.base_offset
                return base_offset if base_offset < tail.end_offset else None
        return None

    def count_by_priority(self, offset: int) -> list[int]:
        """Messages at and after an offset."""
        segments = self._view.segments
        first = segment_index(segments, offset)
        counts = list(NO_MESSAGES)
        for segment in segments[first:]:
            inside = offset > segment.base_offset
            for priority, count in enumerate(segment.count_from(offset) if inside else segment.count()):
                counts[priority] += count
        return counts

    def known_counts(self) -> list[int] | None:
        """Messages in the whole log; None if that would need a read."""
        segments = self._view.segments
        if not all(segment.is_counted for segment in segments):
            return None
        return [sum(counts) for counts in zip(NO_MESSAGES, *(each.count() for each in segments), strict=True)]

    def _find_in(self, segment: Segment, offset: int, priorities: int, end_offset: int) -> FoundFrame | None:
        view = self._view
        known = view.known_frame(segment, offset)
        if known is not None and priorities >> known.header.priority & 1:
            return known
        if not among(segment.count(), priorities):
            return None
        found, gaps = segment.find_priority(offset, priorities)
        for gap in gaps:
            view.note_gap(segment, gap, end_offset)
        if found is not None:
            view.remember(found.header.base_offset, segment, found.position)
        return found

"""Decides which segments are joined."""

from collections.abc import Sequence

from quiver.log.compaction.job import Shape
from quiver.log.compaction.survey import SegmentSurvey

_MOST_JOINED = 100


def groups(segments: Sequence[SegmentSurvey], damaged: Sequence[int], shape: Shape) -> list[list[SegmentSurvey]]:
    """Neighbours that are rewritten into one segment, oldest first. Segments that stay as they are do not appear."""
    found: list[list[SegmentSurvey]] = []
    group: list[SegmentSurvey] = []
    for segment in segments:
        if segment.source.base_offset in damaged:
            found.append(group)
            group = []
        elif group and not _fits(group, segment, shape):
            found.append(group)
            group = [segment]
        else:
            group.append(segment)
    return [each for each in (*found, group) if len(each) > 1 or (each and each[0].is_changed)]


def _fits(group: Sequence[SegmentSurvey], segment: SegmentSurvey, shape: Shape) -> bool:
    size = sum(each.estimated_bytes for each in group) + segment.estimated_bytes
    begin = next((each.first_append_time_ms for each in group if each.kept_count), segment.first_append_time_ms)
    is_near = shape.max_span_ms is None or segment.last_append_time_ms - begin <= shape.max_span_ms
    return len(group) < _MOST_JOINED and size <= shape.segment_bytes and is_near

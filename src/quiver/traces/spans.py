"""From what happened to followed messages to the spans of their traces. Pure."""

from collections.abc import Sequence

import numpy as np

from quiver.model.trace.life import Happening, LifeEvent
from quiver.model.trace.span import SpanEvent
from quiver.traces.followed import FollowedPartition, RunEvent
from quiver.traces.span_rows import (
    ARRIVAL_CODE,
    SharedFields,
    SpanGroup,
    SpanRows,
    TracedMessages,
    span_code,
    span_ids,
    span_rows,
)

_OF_LIFE: dict[Happening, SpanEvent] = {
    "delivered": "consume.fetched",
    "acked": "consume.acked",
    "committed": "consume.acked",
    "nacked": "consume.nacked",
    "dead_lettered": "consume.rejected",
    "extended": "visibility.extended",
    "lease_ended": "visibility.expired",
}


def event_spans(partition: FollowedPartition, happened: Sequence[RunEvent]) -> SpanRows | None:
    """None if none of the events has a span."""
    chosen: list[range] = []
    groups: list[SpanGroup] = []
    codes: list[int] = []
    for run in happened:
        fields = _fields(partition.messages, run.event)
        if fields is not None:
            places = range(*partition.places(run.start, run.end))
            chosen.append(places)
            groups.append(SpanGroup(len(places), fields))
            codes.append(span_code(run.event.event, run.number))
    if not chosen:
        return None
    indexes = np.concatenate([np.arange(places.start, places.stop) for places in chosen])
    hashes = partition.hashes[indexes]
    ids = span_ids(hashes, np.repeat(np.array(codes, np.uint64), [group.message_count for group in groups]))
    return span_rows(partition.messages.take(indexes), ids, span_ids(hashes, ARRIVAL_CODE), groups)


def _fields(messages: TracedMessages, event: LifeEvent) -> SharedFields | None:
    """None for events that have no span. What ends a delivery covers all of it."""
    event_type = _OF_LIFE.get(event.event)
    if event_type is None or event.time_ms is None:
        return None
    duration_ms = 0 if event.event == "delivered" else event.duration_ms or 0
    return SharedFields(
        event_type=event_type,
        time_ms=event.time_ms - duration_ms,
        duration_ms=duration_ms,
        topic=messages.topic,
        partition=messages.partition,
        group=event.group,
        consumer=event.consumer,
        attempt=event.attempt,
        error=event.error,
    )

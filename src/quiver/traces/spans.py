"""From the life of a sampled message to the spans of its trace. Pure."""

import hashlib
from typing import NamedTuple

from quiver.model.trace.life import Happening, LifeEvent
from quiver.model.trace.span import Span, SpanEvent
from quiver.model.trace.traceparent import TraceParent
from quiver.records.header import NO_PRODUCER

_SPAN_DIGITS = 16
_OF_LIFE: dict[Happening, SpanEvent] = {
    "delivered": "consume.fetched",
    "acked": "consume.acked",
    "committed": "consume.acked",
    "nacked": "consume.nacked",
    "dead_lettered": "consume.rejected",
    "extended": "visibility.extended",
    "lease_ended": "visibility.expired",
}


class SampledMessage(NamedTuple):
    parent: TraceParent
    topic: str
    partition: int
    offset: int
    key: str
    timestamp_ms: int
    append_time_ms: int
    producer_id: int = NO_PRODUCER

    def span_id(self, event: str, number: int = 0) -> str:
        """The same one whenever it is computed: a span that is written or exported twice is recognised."""
        name = f"{self.parent.trace_id}/{self.topic}/{self.partition}/{self.offset}/{event}/{number}"
        return hashlib.blake2b(name.encode(), digest_size=_SPAN_DIGITS // 2).hexdigest()

    def arrival(self, purpose: str | None) -> Span:
        """The span of the append: from the time that its producer gave, or from when a move brought it."""
        event: SpanEvent = "publish.persisted"
        start_ms = min(self.timestamp_ms, self.append_time_ms)
        if purpose == "delays":
            event = "delay.fired"
        elif purpose == "dead_letters":
            event, start_ms = "dlq.routed", self.append_time_ms
        elif purpose is not None:
            start_ms = self.append_time_ms
        return Span(
            trace_id=self.parent.trace_id,
            span_id=self.span_id("arrival"),
            parent_span_id=self.parent.span_id,
            event_type=event,
            time_ms=start_ms,
            duration_ms=self.append_time_ms - start_ms,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            key=self.key,
        )

    def span_of(self, number: int, event: LifeEvent) -> Span | None:
        """The span of an event of its life, which is the one of that number; None for those that have none.

        What ends a delivery covers all of it.
        """
        event_type = _OF_LIFE.get(event.event)
        if event_type is None or event.time_ms is None:
            return None
        duration_ms = 0 if event.event == "delivered" else event.duration_ms or 0
        return Span(
            trace_id=self.parent.trace_id,
            span_id=self.span_id(event.event, number),
            parent_span_id=self.span_id("arrival"),
            event_type=event_type,
            time_ms=event.time_ms - duration_ms,
            duration_ms=duration_ms,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            key=self.key,
            group=event.group,
            consumer=event.consumer,
            attempt=event.attempt,
            error=event.error,
        )

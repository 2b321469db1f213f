"""Spans: what is recorded of sampled messages, and the traces that they make up."""

from typing import Literal

import msgspec

SpanEvent = Literal[
    "publish.persisted",
    "delay.fired",
    "dlq.routed",
    "consume.fetched",
    "consume.acked",
    "consume.nacked",
    "consume.rejected",
    "visibility.extended",
    "visibility.expired",
]
TraceStatus = Literal["completed", "error", "pending"]


class Span(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A row of the topic of traces, as JSON."""

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    event_type: SpanEvent
    time_ms: int
    """When it began."""
    duration_ms: int = 0
    topic: str
    partition: int
    offset: int
    key: str = ""
    """Of the message, if it is text."""
    group: str = ""
    consumer: str = ""
    attempt: int = 0
    error: str = ""

    @property
    def end_ms(self) -> int:
        return self.time_ms + self.duration_ms


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    trace_id: str
    spans: list[Span]
    """By time."""

    @property
    def start_ms(self) -> int:
        return min(span.time_ms for span in self.spans)

    @property
    def end_ms(self) -> int:
        return max(span.end_ms for span in self.spans)

    @property
    def status(self) -> TraceStatus:
        """Of the last thing that happened to it."""
        last = max(self.spans, key=lambda span: (span.end_ms, span.event_type in _LAST))
        if last.event_type in ("consume.rejected", "dlq.routed", "consume.nacked", "visibility.expired"):
            return "error"
        return "completed" if last.event_type == "consume.acked" else "pending"


_LAST = ("consume.acked", "consume.rejected", "dlq.routed")


class TraceFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects traces that have a span with every given field."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    key: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    status: TraceStatus | None = None
    min_duration_ms: int | None = None

    def fits(self, trace: Trace) -> bool:
        return (
            (self.status is None or trace.status == self.status)
            and (self.min_duration_ms is None or trace.end_ms - trace.start_ms >= self.min_duration_ms)
            and any(self._fits_span(span) for span in trace.spans)
        )

    def _fits_span(self, span: Span) -> bool:
        return (
            (self.topic is None or span.topic == self.topic)
            and (self.partition is None or span.partition == self.partition)
            and (self.group is None or span.group == self.group)
            and (self.key is None or span.key == self.key)
        )


class TraceStats(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool
    spans_in_buffer: int
    buffer_capacity: int
    traces_indexed: int
    """Messages whose deliveries are followed."""
    spans_written: int
    spans_dropped: int

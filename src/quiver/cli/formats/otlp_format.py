"""Spans in OpenTelemetry's protocol (OTLP over HTTP, JSON), with the names of its messaging conventions."""

from collections.abc import Iterable
from typing import Any

from quiver.model.trace.span import Span

_PRODUCER, _CONSUMER = 4, 5
_ERROR = 2
_NANOSECONDS = 1_000_000
_OPERATIONS = {
    "publish.persisted": ("publish", "send"),
    "delay.fired": ("publish", "send"),
    "dlq.routed": ("publish", "send"),
    "consume.fetched": ("receive", "receive"),
    "consume.acked": ("ack", "settle"),
    "consume.nacked": ("nack", "settle"),
    "consume.rejected": ("reject", "settle"),
    "visibility.extended": ("extend", "settle"),
    "visibility.expired": ("expire", "settle"),
}
"""Name and type of the operation."""


def otlp_document(spans: Iterable[Span]) -> dict[str, Any]:
    """The body of a request to /v1/traces."""
    resource = {"attributes": _attributes({"service.name": "quiver"})}
    scoped = {"scope": {"name": "quiver"}, "spans": [_span(span) for span in spans]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}


def _span(span: Span) -> dict[str, Any]:
    name, kind = _OPERATIONS[span.event_type]
    document: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": f"{name} {span.topic}",
        "kind": _PRODUCER if kind == "send" else _CONSUMER,
        "startTimeUnixNano": str(span.time_ms * _NANOSECONDS),
        "endTimeUnixNano": str(span.end_ms * _NANOSECONDS),
        "attributes": _attributes(
            {
                "messaging.system": "quiver",
                "messaging.operation.name": name,
                "messaging.operation.type": kind,
                "messaging.destination.name": span.topic,
                "messaging.destination.partition.id": str(span.partition),
                "messaging.message.id": f"{span.topic}:{span.partition}:{span.offset}",
                "messaging.consumer.group.name": span.group,
                "messaging.client.id": span.consumer,
                "quiver.message.key": span.key,
                "quiver.offset": span.offset,
                "quiver.attempt": span.attempt,
                "quiver.event": span.event_type,
                "error.message": span.error,
            }
        ),
    }
    if span.parent_span_id:
        document["parentSpanId"] = span.parent_span_id
    if span.error or span.event_type in ("consume.rejected", "visibility.expired"):
        document["status"] = {"code": _ERROR, "message": span.error}
    return document


def _attributes(values: dict[str, str | int]) -> list[dict[str, Any]]:
    """Those that say something."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in values.items()
        if value not in ("", 0) or key == "quiver.offset"
    ]

"""`quiver trace message|list|show|search|export`."""

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import TopicArgument
from quiver.model.times import format_duration, format_time

if TYPE_CHECKING:
    from quiver.model.trace.life import LifeEvent, MessageLife, Place
    from quiver.model.trace.span import Span, Trace

app = group_app("Show what happened to messages.")


_EVENTS = ("time", "event", "group", "consumer", "attempt", "duration", "details")
_TRACES = ("trace_id", "topic", "partition", "offset", "start_time", "duration", "status", "span_count")
_SPANS = (
    *("time", "event_type", "topic", "partition", "offset"),
    *("group", "consumer", "attempt", "duration", "error"),
)
LimitOption = Annotated[int, typer.Option("--limit", "-n", help="Traces to show.", metavar="N", min=1, max=1000)]


class Status(StrEnum):
    COMPLETED = "completed"
    ERROR = "error"
    PENDING = "pending"


_GROUPS = ("group", "kind", "state", "attempts")


@app.command("message")
def message(
    topic: TopicArgument,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, show_default=False)],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the life of a message: publish, deliveries, acks, dead letters, and where it is now."""
    with connect(address) as q:
        life = q.traces.message(topic, partition, offset)
    if output is not Output.TABLE:
        show_document(_document(life), output)
        return
    show_rows([_row(event) for event in life.events], output, columns=_EVENTS)
    if life.groups:
        typer.echo()
        rows = [{"group": e.group, "kind": e.kind, "state": e.state, "attempts": e.attempts} for e in life.groups]
        show_rows(rows, output, columns=_GROUPS)
    for note in life.notes:
        typer.echo(f"note: {note}", err=True)


@app.command("list")
def list_traces(
    limit: LimitOption = 20, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """List the newest traces of sampled messages."""
    with connect(address) as q:
        traces = q.traces.list(limit=limit)
    show_rows([_summary(trace) for trace in traces], output, columns=_TRACES)


@app.command("search")
def search(
    topic: Annotated[str | None, typer.Option(help="Only traces with a message of the topic.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Of the partition.")] = None,
    group: Annotated[str | None, typer.Option(help="Delivered to the group.")] = None,
    key: Annotated[str | None, typer.Option(help="With the key.")] = None,
    start: Annotated[str | None, typer.Option("--from", help="Began then or later.", metavar="TIME")] = None,
    end: Annotated[str | None, typer.Option("--to", help="Began then or before.", metavar="TIME")] = None,
    status: Annotated[Status | None, typer.Option(help="How the trace ended.")] = None,
    min_duration: Annotated[str | None, typer.Option(help="Took at least so long.", metavar="DURATION")] = None,
    limit: LimitOption = 20,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the newest traces that fit."""
    with connect(address) as q:
        traces = q.traces.search(
            topic=topic,
            partition=partition,
            group=group,
            key=key,
            start=start,
            end=end,
            status=None if status is None else status.value,
            min_duration=min_duration,
            limit=limit,
        )
    show_rows([_summary(trace) for trace in traces], output, columns=_TRACES)


@app.command("show")
def show(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE", show_default=False)],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a trace with all its spans."""
    with connect(address) as q:
        trace = q.traces.get(trace_id)
    if output is not Output.TABLE:
        show_document({**_summary(trace), "spans": [_span(span) for span in trace.spans]}, output)
        return
    show_rows([_span(span) for span in trace.spans], output, columns=_SPANS)


@app.command("export")
def export(
    otlp: Annotated[str, typer.Option("--otlp", metavar="URL", help="The collector, such as http://localhost:4318.")],
    group: Annotated[str, typer.Option(help="The consumer group: each sends every span.")] = "otlp-export",
    once: Annotated[bool, typer.Option("--once", help="End when everything is sent that is there now.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
) -> None:
    """Send spans to an OpenTelemetry collector (OTLP over HTTP, JSON), from where the group was."""
    from quiver.cli.trace_export import TraceExport, collector_url

    url = collector_url(otlp)
    with connect(address) as q:
        sending = TraceExport(q, url, group, time.sleep)
        try:
            sending.run(follow=not once, on_retry=lambda problem: typer.echo(f"trying again: {problem}", err=True))
        except KeyboardInterrupt:
            pass
        finally:
            typer.echo(f"{sending.exported} spans exported")


def _summary(trace: "Trace") -> dict[str, Any]:
    first = trace.spans[0]
    return {
        "trace_id": trace.trace_id,
        "topic": first.topic,
        "partition": first.partition,
        "offset": first.offset,
        "start_time": format_time(trace.start_ms),
        "duration": format_duration(trace.end_ms - trace.start_ms),
        "status": trace.status,
        "span_count": len(trace.spans),
    }


def _span(span: "Span") -> dict[str, Any]:
    return {
        "time": format_time(span.time_ms),
        "event_type": span.event_type,
        "topic": span.topic,
        "partition": span.partition,
        "offset": span.offset,
        "group": span.group or None,
        "consumer": span.consumer or None,
        "attempt": span.attempt or None,
        "duration": format_duration(span.duration_ms),
        "error": span.error or None,
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id or None,
    }


def _document(life: "MessageLife") -> dict[str, Any]:
    return {
        "topic": life.topic,
        "partition": life.partition,
        "offset": life.offset,
        "events": [_event(event) for event in life.events],
        "groups": [{"group": e.group, "kind": e.kind, "state": e.state, "attempts": e.attempts} for e in life.groups],
        "known_since": _time(life.known_since_ms),
        "notes": life.notes,
        "trace_id": life.trace or None,
    }


def _event(event: "LifeEvent") -> dict[str, Any]:
    known = {
        "group": event.group or None,
        "consumer": event.consumer or None,
        "attempt": event.attempt or None,
        "duration_ms": event.duration_ms,
        "error": event.error or None,
        "reason": event.reason or None,
        "until": _time(event.until_ms),
        "to": _place(event.to),
        "origin": _place(event.origin),
        "delayed_id": event.delayed_id,
        "transaction_id": event.transaction or None,
    }
    given = {name: value for name, value in known.items() if value is not None}
    return {"event": event.event, "time": _time(event.time_ms), **given}


def _row(event: "LifeEvent") -> dict[str, Any]:
    named = {
        "until": _time(event.until_ms),
        "reason": event.reason,
        "error": event.error,
        "from": _shown_place(event.origin),
        "to": _shown_place(event.to),
        "transaction": event.transaction,
    }
    details = ", ".join(f"{name} {value}" for name, value in named.items() if value)
    return {
        "time": _time(event.time_ms),
        "event": event.event,
        "group": event.group or None,
        "consumer": event.consumer or None,
        "attempt": event.attempt or None,
        "duration": None if event.duration_ms is None else format_duration(event.duration_ms),
        "details": details or None,
    }


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time(time_ms)


def _place(place: "Place | None") -> dict[str, Any] | None:
    if place is None:
        return None
    return {"topic": place.topic, "partition": place.partition, "offset": place.offset}


def _shown_place(place: "Place | None") -> str | None:
    if place is None:
        return None
    return f"{place.topic}-{place.partition}" + ("" if place.offset is None else f" at {place.offset}")

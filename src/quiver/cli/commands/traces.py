"""`quiver trace message`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import TopicArgument
from quiver.model.times import format_duration, format_time

if TYPE_CHECKING:
    from quiver.model.trace.life import LifeEvent, MessageLife, Place

app = group_app("Show what happened to messages.")


@app.callback()
def _group() -> None:
    """Show what happened to messages."""


_EVENTS = ("time", "event", "group", "consumer", "attempt", "duration", "details")
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

"""`quiver delayed list|show|move|cancel`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import TopicArgument
from quiver.model.errors import DelayedNotFound, InvalidRequest
from quiver.model.priority import NAMES
from quiver.model.schedule import DelayedId, parse_delayed_id
from quiver.model.times import format_time, parse_duration_ms, parse_time_ms

if TYPE_CHECKING:
    from quiver.model.schedule import DelayedMessage

app = group_app("List, move and cancel delayed messages.")

_LISTED = ("id", "deliver_at", "priority", "state")
_ID_HELP = "such as 0:42, partition and id, or 42 where only one partition has it."
_IDS = typer.Argument(metavar="ID...", show_default=False, help=f"Messages, {_ID_HELP}")
_ID = typer.Argument(metavar="ID", show_default=False, help=f"The message, {_ID_HELP}")


@app.command("list")
def list_delayed(
    topic: TopicArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", help="Messages to show.", metavar="N", min=1)] = 100,
    skip: Annotated[int, typer.Option(help="Skip the first N.", metavar="N", min=0)] = 0,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List delayed messages, the next due one first."""
    with connect(address) as q:
        page = q.delayed.list(topic, limit=limit, skip=skip)
    rows = [_row(message) for message in page]
    if output is not Output.TABLE:
        show_document({"messages": rows, "total": page.total}, output)
        return
    show_rows(rows, output, columns=_LISTED)
    rest = page.total - skip - len(rows)
    if rest > 0:
        typer.echo(f"{rest} more: --skip {skip + len(rows)}", err=True)


@app.command("show")
def show(
    topic: TopicArgument,
    id: Annotated[str, _ID],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a delayed message, or one that was delivered or cancelled recently."""
    wanted = parse_delayed_id(id)
    with connect(address) as q:
        message = q.delayed.get(topic, wanted.partition, wanted.id)
    show_rows([_row(message)], output, columns=_LISTED)


@app.command("move")
def move(
    topic: TopicArgument,
    ids: Annotated[list[str], _IDS],
    to: Annotated[
        str, typer.Option("--to", metavar="WHEN", help="now, from now on (30m), or a time (2026-01-31T12:00:00Z).")
    ],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Deliver delayed messages at another time, or now. Stops at the first one already delivered or cancelled."""
    when = _when(to)
    wanted = [parse_delayed_id(text) for text in ids]
    moved: list[dict[str, Any]] = []
    with connect(address) as q:
        try:
            for each in wanted:
                q.delayed.reschedule(topic, each.partition, each.id, **when)
                moved.append({"id": str(each), "moved": True})
        finally:
            show_rows(moved, output, columns=("id", "moved"))


def _when(text: str) -> dict[str, Any]:
    if text == "now":
        return {"delay": 0}
    try:
        return {"delay": parse_duration_ms(text) / 1000}
    except InvalidRequest:
        return {"deliver_at": parse_time_ms(text, "--to")}


@app.command("cancel")
def cancel(
    topic: TopicArgument,
    ids: Annotated[list[str], _IDS],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Cancel delayed messages: they are never delivered. Stops at the first one already delivered or cancelled."""
    wanted = [parse_delayed_id(text) for text in ids]
    cancelled: list[DelayedId] = []
    with connect(address) as q:
        for each in wanted:
            try:
                q.delayed.cancel(topic, each.partition, each.id)
            except DelayedNotFound:
                show_rows(_cancelled(cancelled), output, columns=("id", "cancelled"))
                raise
            cancelled.append(each)
    show_rows(_cancelled(cancelled), output)


def _cancelled(ids: list[DelayedId]) -> list[dict[str, Any]]:
    return [{"id": str(id), "cancelled": True} for id in ids]


def _row(message: "DelayedMessage") -> dict[str, Any]:
    return {
        "id": str(DelayedId(message.partition, message.id)),
        "deliver_at": format_time(message.deliver_at_ms),
        "priority": NAMES[message.priority],
        "state": message.state,
    }

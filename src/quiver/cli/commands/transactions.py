"""`quiver txn list|describe|abort`."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_record, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import completer
from quiver.model.times import format_duration, format_time

if TYPE_CHECKING:
    from quiver.model.transaction import TransactionInfo

app = group_app("List, describe and abort transactions.")

_LISTED = ("transaction_id", "transactional_id", "state", "started_at", "timeout", "partitions", "groups")
_TRANSACTION_ID = re.compile(r"(\d+):(\d+)")
_HELP = "A transactional id, or a transaction as it is listed, such as 7:3 (producer id and epoch)."


_complete = completer(lambda q: (info.transactional_id or info.transaction_id for info in q.transactions.list()))
_ARGUMENT = typer.Argument(metavar="ID", autocompletion=_complete, show_default=False, help=_HELP)
IdArgument = Annotated[str, _ARGUMENT]


@app.command("list")
def list_transactions(
    limit: Annotated[int, typer.Option("--limit", "-n", help="Transactions to show.", metavar="N", min=1)] = 100,
    skip: Annotated[int, typer.Option(help="Skip the first N.", metavar="N", min=0)] = 0,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List open transactions, and decided ones that not every partition has applied yet."""
    with connect(address) as q:
        page = q.transactions.list(limit=limit, skip=skip)
    rows = [_row(info) for info in page]
    if output is not Output.TABLE:
        show_document({"transactions": rows, "total": page.total}, output)
        return
    show_rows(rows, output, columns=_LISTED)
    rest = page.total - skip - len(rows)
    if rest > 0:
        typer.echo(f"{rest} more: --skip {skip + len(rows)}", err=True)


@app.command("describe")
def describe(id: IdArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """Show the open transaction of a producer, or the one that ended last."""
    with connect(address) as q:
        info = q.transactions.describe(_producer(id)[0])
    show_record(_row(info), output)


@app.command("abort")
def abort(id: IdArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """Abort an open transaction. Its producer gets an error at its next request."""
    with connect(address) as q:
        info = q.transactions.abort(*_producer(id))
    show_record({**_row(info), "state": "aborted"}, output)


def _producer(id: str) -> tuple[str | int, int | None]:
    """A transactional id, or a producer id and the epoch of its transaction."""
    found = _TRANSACTION_ID.fullmatch(id)
    return (id, None) if found is None else (int(found[1]), int(found[2]))


def _row(info: "TransactionInfo") -> dict[str, Any]:
    return {
        "transaction_id": info.transaction_id,
        "transactional_id": info.transactional_id,
        "producer_id": info.producer_id,
        "epoch": info.epoch,
        "state": info.state,
        "started_at": format_time(info.started_at_ms) if info.started_at_ms else None,
        "timeout": format_duration(info.timeout_ms),
        "partitions": [f"{topic}-{partition}" for topic, partition in info.partitions],
        "groups": info.groups,
    }

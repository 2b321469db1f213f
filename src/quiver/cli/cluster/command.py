"""`quiver cluster`: the workers of a broker, and what a cluster needs."""

import asyncio
from typing import Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_rows
from quiver.cli.http_source import HttpOption, http_source
from quiver.cli.lazy_group import group_app
from quiver.model.errors import InvalidSetting
from quiver.model.times import format_duration

app = group_app("Show the workers of a broker.")


@app.callback()
def _group() -> None:
    """Show the workers of a broker."""


_COLUMNS = ("worker", "state", "pid", "uptime", "restarts", "partitions", "group_shards", "roles")


@app.command("status")
def status(
    units: Annotated[bool, typer.Option("--units", help="Show the worker of every partition, too.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the workers of a broker: what each owns, and how often it was started again."""
    with connect(address) as q:
        document = http_source(q, http).get(f"/cluster?units={str(units).lower()}").document()
    if output is not Output.TABLE:
        show_document(document, output)
        return
    show_rows([_row(worker) for worker in document["workers"]], output, columns=_COLUMNS)
    if units:
        typer.echo()
        rows = [{"topic": topic, "workers": _joined(workers)} for topic, workers in document["topics"].items()]
        show_rows(rows, output, columns=("topic", "workers"))


@app.command("etcd")
def etcd(
    etcd_address: Annotated[str, typer.Argument(help="Such as etcd://host:2379,host:2379/name.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Check an etcd: which members respond, what its user may do, how long writes and watches take."""
    from quiver.cli.cluster.etcd_check import check_etcd
    from quiver.coordination.etcd.address import parse_etcd_address

    try:
        address = parse_etcd_address(etcd_address)
    except ValueError as error:
        raise InvalidSetting(setting="etcd", problem=str(error)) from error
    document = asyncio.run(check_etcd(address))
    if output is not Output.TABLE:
        show_document(document, output)
    else:
        members = document.pop("members")
        show_rows(members, output, columns=("endpoint", "version", "problem"))
        typer.echo()
        show_rows([document], output)


def _row(worker: dict[str, Any]) -> dict[str, Any]:
    uptime = worker["uptime"]
    shown = {
        "uptime": None if uptime is None else format_duration(int(uptime) * 1000),
        "group_shards": _joined(worker["group_shards"]),
        "roles": _joined(worker["roles"]),
    }
    return worker | shown


def _joined(values: list[Any]) -> str:
    return ",".join(map(str, values))

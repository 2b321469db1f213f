"""`quiver cluster`: the workers of a broker, brokers that share a database, and what a cluster needs."""

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_rows
from quiver.cli.http_source import HttpOption, http_source
from quiver.cli.lazy_group import group_app
from quiver.model.errors import InvalidRequest, InvalidSetting
from quiver.model.numbers import shown, whole_number
from quiver.model.times import format_duration, parse_duration_ms

app = group_app("Show the workers of a broker, and the brokers that share a database.")


@app.callback()
def _group() -> None:
    """Show the workers of a broker, and the brokers that share a database."""


_COLUMNS = ("worker", "state", "pid", "uptime", "restarts", "partitions", "group_shards", "roles")
_SHARED_COLUMNS = ("worker", "state", "node", "next_node", "uptime", "partitions", "group_shards", "roles")
_REPLICATED_COLUMNS = ("worker", "state", "node", "epoch", "replicas", "isr", "adding", "partitions", "group_shards")
_REASSIGNMENT_COLUMNS = ("id", "state", "percent", "units", "partitions", "started", "ended")
_MOVE_COLUMNS = ("unit", "state", "old_replicas", "new_replicas", "replicas", "isr", "partitions")
_NODE_COLUMNS = ("node", "state", "leads", "is_controller", "host", "native_port", "http_port", "version", "tags")
NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="The id of a broker: see `quiver cluster nodes`.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]


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
    is_shared = any("node" in worker for worker in document["workers"])
    columns: tuple[str, ...] = _SHARED_COLUMNS if is_shared else _COLUMNS
    if any("replicas" in worker for worker in document["workers"]):
        columns = _REPLICATED_COLUMNS
    show_rows([_row(worker) for worker in document["workers"]], output, columns=columns)
    if is_shared:
        typer.echo()
        _show_nodes(document["nodes"])
    if units:
        typer.echo()
        rows = [{"topic": topic, "workers": _joined(workers)} for topic, workers in document["topics"].items()]
        show_rows(rows, output, columns=("topic", "workers"))


@app.command("nodes")
def nodes(
    address: AddressOption = DEFAULT_ADDRESS, http: HttpOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the nodes of a cluster or the brokers that share a database, and which workers each of them leads."""
    with connect(address) as q:
        document = http_source(q, http).get("/cluster/nodes").document()
    if output is not Output.TABLE:
        show_document(document, output)
    else:
        _show_nodes(document["nodes"])


@app.command("drain")
def drain(
    node: NodeArgument,
    end: Annotated[bool, typer.Option("--end", help="Let it get workers again.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a broker hand over all of its workers; it gets none until that is ended."""
    _change("DELETE" if end else "POST", f"/cluster/nodes/{quote(node, safe='')}/drain", address, http, output)


@app.command("remove")
def remove(
    node: NodeArgument,
    dry_run: DryRunOption = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Forget a broker that has been stopped and does not come back."""
    path = f"/cluster/nodes/{quote(node, safe='')}"
    _change("DELETE", path + "?dry_run=true" * dry_run, address, http, output)


@app.command("rebalance")
def rebalance(
    dry_run: DryRunOption = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Spread the workers over the brokers now. Brokers that share a database do so whenever one joins or leaves."""
    _change("POST", "/cluster/rebalance", address, http, output, {"dry_run": dry_run})


@app.command("reassign")
def reassign(
    unit: Annotated[
        str, typer.Argument(help="The number of a worker, or TOPIC:PARTITION, which moves its worker as a whole.")
    ],
    replicas: Annotated[str, typer.Argument(help="Nodes, such as 1,2,4: the preferred leader first.")],
    throttle: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The most that its new replicas get per second, such as 20MiB."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="It goes back when it is not in sync in this time.")
    ] = None,
    dry_run: DryRunOption = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a worker other replicas. New ones get everything first; the list from before cancels it."""
    body = _reassignment(unit, [node for node in replicas.split(",") if node]) | {"dry_run": dry_run}
    if throttle is not None:
        from quiver.client.size_option import size_option

        body["throttle_bytes_per_sec"] = size_option("throttle", throttle, 1, 2**50)
    if timeout is not None:
        body["timeout_per_partition_sec"] = parse_duration_ms(timeout, "timeout") / 1000
    with connect(address) as q:
        document = http_source(q, http).change("POST", "/admin/reassignment", body)
    _show_reassignment(document, output)


@app.command("reassignments")
def reassignments(
    number: Annotated[int | None, typer.Argument(metavar="[ID]", help="Show this one: where each worker is.")] = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Cancel it: workers on their way go back to the replicas from before.")
    ] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    http: HttpOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the last 50 reassignments, or the progress of one, or cancel it."""
    if number is None and cancel:
        raise InvalidRequest(problem="--cancel needs the ID of a reassignment")
    with connect(address) as q:
        source = http_source(q, http)
        if number is not None:
            path = f"/admin/reassignment/{number}"
            _show_reassignment(source.change("DELETE" if cancel else "GET", path), output)
            return
        document = source.change("GET", "/admin/reassignment")
    if output is not Output.TABLE:
        show_document(document, output)
    else:
        show_rows([_summary(each) for each in document["reassignments"]], output, columns=_REASSIGNMENT_COLUMNS)


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


def _change(
    method: str, path: str, address: str, http: str | None, output: Output, body: dict[str, Any] | None = None
) -> None:
    with connect(address) as q:
        document = http_source(q, http).change(method, path, body)
    show_document(document, output)


def _reassignment(unit: str, nodes: list[str]) -> dict[str, Any]:
    number = whole_number(unit)
    if number is not None:
        return {"units": [{"unit": number, "new_replicas": nodes}]}
    topic, _, text = unit.rpartition(":")
    partition = whole_number(text)
    if not topic or partition is None:
        raise InvalidRequest(problem=f"{shown(unit)} is neither the number of a worker nor TOPIC:PARTITION")
    return {"partitions": [{"topic": topic, "partition": partition, "new_replicas": nodes}]}


def _show_reassignment(document: dict[str, Any], output: Output) -> None:
    if output is not Output.TABLE:
        show_document(document, output)
        return
    show_rows([_summary(document)], output, columns=_REASSIGNMENT_COLUMNS)
    typer.echo()
    lists = ("old_replicas", "new_replicas", "replicas", "isr")
    rows = [
        move | {name: _joined(move[name]) for name in lists} | {"partitions": move["partition_count"]}
        for move in document["units"]
    ]
    show_rows(rows, output, columns=_MOVE_COLUMNS)


def _summary(document: dict[str, Any]) -> dict[str, Any]:
    progress = document["progress"]
    return {
        "id": document["reassignment_id"],
        "state": document["state"],
        "percent": progress["percent"],
        "units": f"{progress['units_done']}/{progress['units']}",
        "partitions": f"{progress['partitions_done']}/{progress['partitions']}",
        "started": document["started_at"],
        "ended": document["ended_at"],
    }


def _show_nodes(nodes: list[dict[str, Any]]) -> None:
    rows = [node | {"leads": _joined(node["leaders"]), "tags": _tags(node["tags"])} for node in nodes]
    show_rows(rows, Output.TABLE, columns=_NODE_COLUMNS)


def _row(worker: dict[str, Any]) -> dict[str, Any]:
    uptime = worker["uptime"]
    shown = {
        "uptime": None if uptime is None else format_duration(int(uptime) * 1000),
        "group_shards": _joined(worker["group_shards"]),
        "roles": _joined(worker["roles"]),
    }
    lists = ("replicas", "isr", "adding")
    return worker | shown | {name: _joined(worker[name]) for name in lists if name in worker}


def _tags(tags: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in tags.items())


def _joined(values: list[Any]) -> str:
    return ",".join(map(str, values))

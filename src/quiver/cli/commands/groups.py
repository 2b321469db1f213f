"""`quiver group list|describe|alter|reset|pause|resume|delete`."""

import sys
from collections.abc import Mapping, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_record, show_rows, table
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import GroupArgument, GroupsArgument, complete_topics
from quiver.cli.options.queue_settings import QUEUE_HELP
from quiver.cli.options.signature import option, with_options
from quiver.model.errors import InvalidRequest
from quiver.model.times import format_duration, format_time

if TYPE_CHECKING:
    from quiver.protocol.group_messages import GroupDescription, GroupMember, GroupPartition, ResetPart

app = group_app("List, describe, alter, reset and delete groups.")

_LISTED = ("id", "kind", "state", "members", "lag", "leased", "retrying", "topics")
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)
_SHORT_LENGTH = 8

_DEFAULT = "default"
_HELP = {
    "offsets_retention": "How long positions are kept while there are no members, such as 30d.",
    **QUEUE_HELP,
}


def _gather(values: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: values[name] for name in _HELP if values[name] is not None}
    return {name: None if value == _DEFAULT else value for name, value in given.items()}


_with_settings = with_options(
    [option(name, str | None, help=text, metavar="VALUE") for name, text in _HELP.items()], "settings", _gather
)

TopicOption = Annotated[
    str, typer.Option(autocompletion=complete_topics, metavar="TOPIC", show_default=False, help="Where to move it.")
]


QueueTopicOption = Annotated[
    str, typer.Option("--topic", autocompletion=complete_topics, metavar="TOPIC", help="In this topic.")
]


@app.command("list")
def list_groups(address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """List the groups with their lag in messages; for queue groups also what is leased or waiting for a retry."""
    with connect(address) as q:
        groups = q.groups.list()
    names = ("id", "kind", "state", "members", "generation", "topics", "lag", "leased", "retrying")
    show_rows([{name: getattr(group, name) for name in names} for group in groups], output, columns=_columns(output))


@app.command("describe")
def describe(
    group: GroupArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Show a group's members, and its lag per partition and in total.

    Lag is the number of messages that are not committed, and the age of the oldest of them.
    """
    with connect(address) as q:
        details = _details(q.groups.describe(group))
    if output is not Output.TABLE:
        show_document(details, output)
        return
    members, partitions, config = (details.pop(name) for name in ("members", "partitions", "config"))
    show_record(details | config | {"lag_time": _rough(details["lag_time"]), "members": len(members)}, output)
    if members:
        print()
        lines = [_member_line(member) for member in members]
        print(_fitting(lines, [{k: v for k, v in line.items() if k != "joined"} for line in lines]))
    if partitions:
        print()
        lines = [_partition_line(part) for part in partitions]
        print(_fitting(lines, [line | {"owner": _short(line["owner"])} for line in lines]))


@app.command("alter")
@_with_settings
def alter(
    group: GroupArgument,
    settings: Mapping[str, Any],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a group.

    A queue setting that the group does not set comes from the topic; the value `default` unsets it again.
    """
    if not settings:
        raise InvalidRequest(problem="nothing to change: give at least one setting, such as --visibility 5m")
    with connect(address) as q:
        q.groups.alter(group, **settings)
        settings = q.groups.describe(group).settings
    show_record({"id": group, **settings}, output)


@app.command("reset")
def reset(
    group: GroupArgument,
    topic: TopicOption,
    to: Annotated[
        str | None,
        typer.Option(help="earliest, latest, an offset, a time ago such as -2h, or a time (RFC 3339)."),
    ] = None,
    shift: Annotated[
        int | None, typer.Option(help="Move by this many messages instead: 100 skips, -100 reads again.", metavar="N")
    ] = None,
    like: Annotated[str | None, typer.Option(help="Move to where this group is.", metavar="GROUP")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move a group without members to another position in a topic."""
    if [to, shift, like].count(None) != 2:
        raise InvalidRequest(problem="say where to: --to (earliest, latest, ...), --shift N or --like GROUP")
    with connect(address) as q:
        moved = q.groups.reset(group, topic, to, shift=shift, like=like, dry_run=dry_run)
    if output is not Output.TABLE:
        show_document(_reset_document(group, topic, moved, dry_run=dry_run), output)
        return
    show_rows([_reset_row(part) for part in moved], output)
    if dry_run:
        print("\nDry run: nothing was changed.")


@app.command("pause")
def pause(
    group: GroupArgument,
    topic: QueueTopicOption,
    reason: Annotated[str, typer.Option(help="Why, for people who look at the group.")] = "",
    address: AddressOption = DEFAULT_ADDRESS,
) -> None:
    """Pause a queue group in a topic: its consumers get nothing until it is resumed, also after a restart."""
    with connect(address) as q:
        q.queues.pause(topic, group, reason)
    print(f"{group} is paused in {topic}")


@app.command("resume")
def resume(group: GroupArgument, topic: QueueTopicOption, address: AddressOption = DEFAULT_ADDRESS) -> None:
    """Resume a queue group that was paused in a topic."""
    with connect(address) as q:
        q.queues.resume(topic, group)
    print(f"{group} is not paused in {topic}")


@app.command("delete")
def delete(
    groups: GroupsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete groups without members, and their positions. Asks first when run from a terminal."""
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Delete {', '.join(groups)} and their positions?", abort=True)
    deleted: list[dict[str, Any]] = []
    try:
        with connect(address) as q:
            for group in groups:
                q.groups.delete(group)
                deleted.append({"id": group, "deleted": True})
    finally:
        if deleted:
            show_rows(deleted, output)


def _columns(output: Output) -> Sequence[str]:
    return _LISTED if output is Output.TABLE else ()


def _details(group: "GroupDescription") -> dict[str, Any]:
    """A group with the fields of the HTTP response; times of lag in seconds."""
    parts = sorted(group.partitions, key=lambda part: (part.topic, part.partition))
    return {
        "id": group.id,
        "kind": group.kind,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "generation": group.generation,
        "topics": sorted({part.topic for part in parts}),
        "lag": sum(part.lag for part in parts),
        "lag_time": max((part.lag_ms for part in parts), default=0) / 1000,
        "members": [_member(member) for member in sorted(group.members, key=lambda m: (m.joined_at_ms, m.id))],
        "partitions": [_partition(part) for part in parts],
        "config": group.settings,
    }


def _member(member: "GroupMember") -> dict[str, Any]:
    return {
        "id": member.id,
        "client_id": member.client_id,
        "instance_id": member.instance_id,
        "assigned_partitions": [f"{topic}-{partition}" for topic, partition in sorted(member.partitions)],
        "last_heartbeat": format_time(member.last_heartbeat_ms),
        "joined_at": format_time(member.joined_at_ms),
    }


def _partition(part: "GroupPartition") -> dict[str, Any]:
    return {
        "topic": part.topic,
        "partition": part.partition,
        "committed_offset": part.committed,
        "end_offset": part.end_offset,
        "lag": part.lag,
        "lag_time": part.lag_ms / 1000,
        "owner": part.owner,
        "metadata": part.metadata,
    }


def _member_line(member: Mapping[str, Any]) -> dict[str, Any]:
    """Short enough for a terminal; the other table shows the partitions of each member."""
    instance = {"instance": member["instance_id"]} if member["instance_id"] else {}
    return {
        "member": member["id"],
        **instance,
        "partitions": len(member["assigned_partitions"]),
        "joined": member["joined_at"].partition(".")[0] + "Z",
    }


def _fitting(rows: Sequence[Mapping[str, Any]], narrow: Sequence[Mapping[str, Any]]) -> str:
    """The table of `rows`, or of `narrow` where the terminal has no room for it."""
    whole = table(rows)
    fits = not sys.stdout.isatty() or max(map(len, whole.splitlines())) <= get_terminal_size().columns
    return whole if fits else table(narrow)


def _short(member: str) -> str:
    """The end of a member's id, which is random: enough to find it among the members."""
    return member if len(member) <= _SHORT_LENGTH else f"..{member[2 - _SHORT_LENGTH :]}"


def _partition_line(part: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "topic": part["topic"],
        "partition": part["partition"],
        "committed": part["committed_offset"],
        "end": part["end_offset"],
        "lag": part["lag"],
        "lag_time": _rough(part["lag_time"]),
        "owner": part["owner"] or "-",
        **({"metadata": part["metadata"]} if part["metadata"] else {}),
    }


def _reset_row(part: "ResetPart") -> dict[str, Any]:
    change = None if part.old is None else part.new - part.old
    return {"partition": part.partition, "old": part.old, "new": part.new, "change": change}


def _reset_document(group: str, topic: str, moved: Sequence["ResetPart"], *, dry_run: bool) -> dict[str, Any]:
    partitions = {str(part.partition): {"old": part.old, "new": part.new} for part in moved}
    return {"id": group, "topic": topic, "dry_run": dry_run, "partitions": partitions}


def _rough(seconds: float) -> str:
    """A duration for people: its two largest units, `2h15m` rather than `2h15m7s31ms`."""
    ms = round(seconds * 1000)
    below = [unit for unit in _UNITS_MS if unit <= ms][:2]
    return format_duration(ms // below[-1] * below[-1] if below else ms)

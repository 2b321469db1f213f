"""`quiver topic list|create|describe|replicas|alter|compact|watch|delete`."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.output import Output, OutputOption, show_document, show_record, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.config import value_or_none
from quiver.cli.options.names import TopicArgument, TopicsArgument
from quiver.cli.options.queue_settings import QUEUE_HELP
from quiver.cli.options.signature import option, with_options
from quiver.model.errors import InvalidRequest, TopicExists, TopicNotFound
from quiver.model.times import format_time
from quiver.model.topic import SETTING_NAMES

if TYPE_CHECKING:
    from quiver.protocol.messages import TopicDescription

app = group_app("List, create, describe, alter, compact, watch and delete topics.")

_LISTED = ("name", "partitions", "total_messages", "total_size_bytes", "durability", "retention")
_HELP = {
    "partitions": "The number of partitions. It can be raised later, which moves keys to other partitions.",
    "retention": "How long messages are kept, such as 24h or 7d; none keeps them forever.",
    "retention_bytes": "How much each partition keeps at most, such as 10GiB; none: no limit.",
    "segment_bytes": "The size at which a segment file is closed, such as 64MiB.",
    "durability": "fsync: acked is on disk; interval: synced every second; memory: never written.",
    "cleanup": "delete, compact or compact,delete.",
    "tombstone_retention": "How long compaction keeps tombstones, such as 24h.",
    "dedup_window": "How long message ids are remembered, such as 10m; 0: not at all.",
    "max_message_bytes": "The largest message of this topic, such as 256KiB; none: the broker's limit.",
    "ttl": "Messages expire this long after they arrive.",
    "settled_retention": "How long messages are kept that every group is done with; none: as long as the others.",
    "priority_weights": "Five weights from critical to background, such as 50/25/15/7/3.",
    "replication_factor": "Replicas; the same for all topics of a cluster, so it can be left out.",
    "min_isr": "How many replicas must be in sync for a message to be taken; at least what the cluster says.",
    "labels": "Notes about the topic, such as team=billing,tier=1; they replace those that it has.",
    **QUEUE_HELP,
}


def _gather(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value_or_none(values[name]) for name in SETTING_NAMES if values[name] is not None}


_with_settings = with_options(
    [option(name, str | None, help=_HELP[name], metavar="VALUE") for name in SETTING_NAMES], "settings", _gather
)


@app.command("list")
def list_topics(address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """List the topics."""
    rows = []
    with connect(address) as q:
        for name in q.topics.list():
            with suppress(TopicNotFound):  # deleted since it was listed
                rows.append(_row(q.topics.describe(name)))
    show_rows(rows, output, columns=_LISTED)


@app.command("create")
@_with_settings
def create(
    topic: TopicArgument,
    settings: Mapping[str, Any],
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave an existing topic as it is instead of failing.")
    ] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create a topic."""
    with connect(address) as q:
        is_new = True
        try:
            found = q.topics.create(topic, **settings)
        except TopicExists:
            if not if_not_exists:
                raise
            is_new = False
            found = q.topics.create(topic, exist_ok=True, **settings)
    show_record({"name": found.name, "created": is_new, **found.settings}, output)


@app.command("describe")
def describe(
    topic: TopicArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Show a topic's settings and partitions."""
    with connect(address) as q:
        details = _details(q.topics.describe(topic))
    if output is not Output.TABLE:
        show_document(details, output)
        return
    partitions, config = details.pop("partition_offsets"), details.pop("config")
    show_record(details | config, output)
    print()
    show_rows([{"partition": int(number), **offsets} for number, offsets in partitions.items()], output)


@app.command("replicas")
def replicas(
    topic: TopicArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Show which nodes of a cluster have the partitions of a topic."""
    with connect(address) as q:
        found = q.topics.replicas(topic)
    rows = [
        {
            "partition": each.partition,
            "leader": None if each.leader is None else each.leader.node,
            "replicas": [node.node for node in each.replicas],
            "in_sync": [node.node for node in each.in_sync],
            "racks": [node.rack for node in each.replicas],
            "address": None if each.leader is None else each.leader.address,
        }
        for each in found
    ]
    show_rows(rows, output)


@app.command("alter")
@_with_settings
def alter(
    topic: TopicArgument,
    settings: Mapping[str, Any],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change settings of a topic; those not named stay as they are."""
    if not settings:
        raise InvalidRequest(problem="nothing to change: give at least one setting, such as --retention 24h")
    with connect(address) as q:
        altered = q.topics.alter(topic, **settings)
    show_record({"name": altered.name, **altered.settings}, output)


@app.command("compact")
def compact(
    topic: TopicArgument,
    partition: Annotated[list[int] | None, typer.Option(help="Only this partition; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compact a topic now: only the last message of each key stays."""
    with connect(address) as q:
        done = q.topics.compact(topic, partitions=partition, dry_run=dry_run)
    rows = [
        {
            "partition": each.partition,
            "records_before": each.records_before,
            "records_after": each.records_after,
            "dirty_ratio": round(each.dirty_ratio, 3),
        }
        for each in done.partitions
    ]
    show_rows(rows, output)


@app.command("watch")
def watch(
    topic: TopicArgument,
    count: Annotated[int | None, typer.Option("-n", "--count", metavar="N", help="Stop after so many lines.")] = None,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print a line per second: rates, size, and the lag of each group."""
    from quiver.cli.live.topic_watch import watch_topic

    if count is not None and count < 1:
        raise InvalidRequest(problem="-n must be 1 or more")
    with connect(address) as q:
        try:
            watch_topic(q, topic, count, output)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


@app.command("delete")
def delete(
    topics: TopicsArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete topics with everything in them. Asks first when run from a terminal."""
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Delete {', '.join(topics)} and every message in them?", abort=True)
    with connect(address) as q:
        for topic in topics:
            q.topics.delete(topic)
    show_rows([{"name": topic, "deleted": True} for topic in topics], output)


def _row(topic: "TopicDescription") -> dict[str, Any]:
    details = _details(topic)
    return {name: details[name] if name in details else details["config"][name] for name in _LISTED}


def _details(topic: "TopicDescription") -> dict[str, Any]:
    """A topic with the fields of the HTTP response; `latest` is the next offset to be written."""
    return {
        "name": topic.name,
        "created_at": format_time(topic.created_at_ms),
        "partitions": len(topic.offsets),
        "total_messages": topic.message_count,
        "total_size_bytes": topic.size_bytes,
        "partition_offsets": {
            str(number): {"earliest": earliest, "latest": latest, **_compacted_to(topic, number)}
            for number, (earliest, latest) in enumerate(topic.offsets)
        },
        "config": topic.settings,
    }


def _compacted_to(topic: "TopicDescription", number: int) -> dict[str, int]:
    return {"compacted_to": topic.compacted_to[number]} if topic.compacted_to else {}

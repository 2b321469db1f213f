"""`quiver consume TOPIC`: prints messages from a position on, or those of a group."""

import os
import sys
from collections.abc import Collection, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.message_format import FORMAT_HELP, Format, Row, parse_format
from quiver.cli.group_member import GroupReading, read_as_member
from quiver.cli.lazy_group import command_app
from quiver.cli.options.isolation import Isolation, IsolationOption
from quiver.cli.options.names import TopicArgument, complete_groups
from quiver.cli.options.read_from import ReadFrom, ReadFromOption
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from quiver.search.language.expression import Expression

_ROWS_PER_PRINT = 10_000
_POSITION = "earliest, latest, an offset, a time ago such as -2h, or a time (RFC 3339)"


def consume(
    topic: TopicArgument,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            autocompletion=complete_groups,
            help="Read as a member of this group, which remembers its position.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option("--from", help=f"Where to start, or where a new group starts: {_POSITION}. [default: earliest]"),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--to", help="Where to stop, in the same form. [default: the end of the topic now]")
    ] = None,
    count: Annotated[int | None, typer.Option("-n", "--count", help="Stop after this many messages.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-F", help="Wait for more instead of stopping.")] = False,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where", "-w", metavar="EXPRESSION", help="Only messages that fit, such as 'value.total > 300'."
        ),
    ] = None,
    isolation: IsolationOption = Isolation.READ_COMMITTED,
    read_from: ReadFromOption = ReadFrom.LEADER,
    include_expired: Annotated[bool, typer.Option("--include-expired", help="Also print expired messages.")] = False,
    format: Annotated[str, typer.Option("--format", help=FORMAT_HELP)] = "value",
    address: AddressOption = DEFAULT_ADDRESS,
) -> None:
    """Print messages; without --follow it stops at the end."""
    _check(group, end, count, follow, partition, include_expired)
    fits = None if where is None else _expression(where, group)
    shape = parse_format(format)
    with connect(address) as q:
        try:
            if group is not None:
                read_as_member(q, GroupReading(topic, group, start, count, follow, shape, isolation, read_from))
                return
            stop = None if follow else (end or "latest")
            reader = q.read(
                topic,
                start=start or "earliest",
                end=stop,
                partitions=partition or None,
                isolation=isolation,
                include_expired=include_expired,
                read_from=read_from,
            )
            batches = reader.batches() if fits is None else _fitting(fits, reader.batches())
            _print(_row_batches(topic, batches, shape.fields), count, shape)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except BrokenPipeError:
            _discard_output()
            return
        if reader.lost_count:
            typer.echo(f"quiver: retention removed {reader.lost_count} messages before they were read", err=True)
        if reader.expired_count:
            text = f"{reader.expired_count} expired messages were left out (--include-expired)"
            typer.echo(f"quiver: {text}", err=True)


def _expression(text: str, group: str | None) -> "Expression":
    if group is not None:
        raise InvalidRequest(problem="a group reads every message: drop --where, or drop --group")
    from quiver.search.language.expression import Expression  # loads Arrow

    return Expression(text)


def _fitting(fits: "Expression", batches: Iterable[Any]) -> Iterator[Any]:
    from quiver.cli.search.batch_filter import fitting

    return fitting(fits, batches)


def _check(
    group: str | None,
    end: str | None,
    count: int | None,
    follow: bool,
    partition: list[int] | None,
    include_expired: bool,
) -> None:
    """Raises InvalidRequest for options that contradict each other."""
    if follow and end is not None:
        raise InvalidRequest(problem="give either --follow or --to, not both")
    if count is not None and count < 1:
        raise InvalidRequest(problem="-n must be 1 or more")
    if group is not None and (end is not None or partition):
        problem = "a group reads every partition to its end: drop --to and --partition, or drop --group"
        raise InvalidRequest(problem=problem)
    if group is not None and include_expired:
        raise InvalidRequest(problem="a group never gets expired messages: drop --include-expired, or drop --group")


def _print(batches: Iterable[list[Row]], count: int | None, shape: Format) -> None:
    """Writes each batch as it comes, so that a follower sees messages at once."""
    left = sys.maxsize if count is None else count
    for rows in batches:
        shown = rows[:left]
        sys.stdout.buffer.write(shape.render(shown))
        sys.stdout.buffer.flush()
        left -= len(shown)
        if left == 0:
            return


def _row_batches(topic: str, batches: Iterable[Any], fields: Collection[str]) -> Iterator[list[Row]]:
    """Rows of Arrow batches, in slices that bound the memory for one print."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS_PER_PRINT):
            yield _rows(topic, batch.slice(start, _ROWS_PER_PRINT), fields)


def _rows(topic: str, batch: Any, fields: Collection[str]) -> list[Row]:
    """Rows of a batch; columns that are not shown are not read."""

    def column(name: str) -> Iterable[Any]:
        return batch.column(name).to_pylist() if name in fields else repeat(None, batch.num_rows)

    times = batch.column("timestamp").cast("int64").to_pylist() if "timestamp" in fields else repeat(0)
    headers = (dict(items or ()) for items in column("headers"))
    plain = (column(name) for name in ("key", "value"))
    return list(
        map(Row, repeat(topic), column("partition"), column("offset"), times, *plain, headers, column("priority"))
    )


def _discard_output() -> None:
    """The reader of our output is gone (`| head`), so nothing more is written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = command_app(consume)

"""`quiver dlq list|show|redrive|purge`."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.dead_letter_format import to_document, to_row
from quiver.cli.formats.output import Output, OutputOption, show_document, show_record, show_rows
from quiver.cli.lazy_group import group_app
from quiver.cli.options.names import TopicArgument, complete_topics
from quiver.cli.options.signature import option, with_options
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from quiver.client.admin.dead_letters import DeadLetterPage, TakenDeadLetters

app = group_app("List, show, redrive and purge dead letters.")

_LISTED = ("id", "died_at", "reason", "group", "attempts", "original", "key", "last_error")
_FILTER = {
    "group": "Only messages that this group gave up.",
    "reason": "Only this reason: max_attempts, rejected or expired.",
    "key": "Only messages with this key.",
    "contains": "Only messages with this text in the value or in the last error.",
    "from_time": "Only what died at or after this time: RFC 3339, epoch milliseconds, or a time ago such as -2h.",
    "to_time": "Only what died at or before this time.",
    "partition": "Only this partition.",
}
_IDS = typer.Argument(metavar="[ID]...", show_default=False, help="Only these dead letters, such as 0:42.")

IdsArgument = Annotated[list[str] | None, _IDS]
LimitOption = Annotated[int | None, typer.Option(help="At most this many, the oldest first.", metavar="N", min=1)]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the topic.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def _gather(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _FILTER if values[name] is not None}


_with_filter = with_options(
    [
        option(name, int | None if name == "partition" else str | None, help=text, metavar="VALUE")
        for name, text in _FILTER.items()
    ],
    "criteria",
    _gather,
)


@app.command("list")
@_with_filter
def list_letters(
    topic: TopicArgument,
    criteria: dict[str, Any],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Dead letters to show.", metavar="N", min=1)] = 100,
    after: Annotated[
        str | None,
        typer.Option(help="Where the previous list ended.", metavar="POSITION"),
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the dead letters of a topic, oldest first."""
    with connect(address) as q:
        page = q.dead_letters.list(topic, limit=limit, after=after, newest_first=newest, **criteria)
    if output is not Output.TABLE:
        show_document(
            {"messages": [to_document(dead_letter) for dead_letter in page], "total": page.total, "next": page.next},
            output,
        )
        return
    show_rows([to_row(dead_letter) for dead_letter in page], output, columns=_LISTED)
    _show_rest(page)


@app.command("show")
def show(
    topic: TopicArgument,
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", show_default=False, help="Dead letters, such as 0:42.")
    ],
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show dead letters with their values, headers and history."""
    with connect(address) as q:
        dead_letters = [to_document(q.dead_letters.get(topic, id)) for id in ids]
    if output is not Output.TABLE:
        show_document(dead_letters, output)
        return
    for number, dead_letter in enumerate(dead_letters):
        if number:
            print()
        original = dead_letter.pop("original") or {}
        show_record(dead_letter | {f"original_{name}": value for name, value in original.items()}, output)


@app.command("redrive")
@_with_filter
def redrive(
    topic: TopicArgument,
    criteria: dict[str, Any],
    ids: IdsArgument = None,
    to: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete_topics,
            metavar="TOPIC",
            help="Send them to this topic instead.",
        ),
    ] = None,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters back to the topic they came from: these ids, those that match a filter, or all."""
    criteria |= {"ids": ids} if ids else {}
    with connect(address) as q:
        taken = q.dead_letters.redrive(topic, to=to, limit=limit, dry_run=dry_run, **criteria)
    _show_taken("redriven", taken, output, dry_run=dry_run)


@app.command("purge")
@_with_filter
def purge(
    topic: TopicArgument,
    criteria: dict[str, Any],
    ids: IdsArgument = None,
    all: AllOption = False,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove dead letters permanently: these ids, those that match a filter, or --all. Asks first in a terminal."""
    criteria = _chosen(criteria, ids, all=all)
    with connect(address) as q:
        if not (yes or dry_run) and sys.stdin.isatty() and sys.stdout.isatty():
            count = q.dead_letters.purge(topic, limit=limit, dry_run=True, **criteria).dead_letter_count
            typer.confirm(f"Remove {count} dead letters of {topic} permanently?", abort=True)
        taken = q.dead_letters.purge(topic, limit=limit, dry_run=dry_run, **criteria)
    _show_taken("purged", taken, output, dry_run=dry_run)


def _chosen(criteria: dict[str, Any], ids: list[str] | None, *, all: bool) -> dict[str, Any]:
    """The criteria with the ids; purging everything must be asked for with --all."""
    if all == bool(ids or criteria):
        raise InvalidRequest(
            problem="name what to purge: ids such as 0:42, a filter such as --reason rejected, or --all"
        )
    return criteria | ({"ids": ids} if ids else {})


def _show_taken(done: str, taken: "TakenDeadLetters", output: Output, *, dry_run: bool) -> None:
    if output is not Output.TABLE:
        document = {done: taken.dead_letter_count, "dry_run": dry_run, "ids": taken.ids, "not_found": taken.missing}
        show_document(document, output)
        return
    print(f"{taken.dead_letter_count} {'would be ' if dry_run else ''}{done}")
    for id in taken.missing:
        print(f"{id} was not found")


def _show_rest(page: "DeadLetterPage") -> None:
    if page.next is not None:
        print(f"\n{len(page)} of {page.total}; continue with --after {page.next}")

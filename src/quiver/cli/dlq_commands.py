"""`quiver dlq list|show|redrive|purge`."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, TopicArgument, complete_topics, connect
from quiver.cli.letter_format import listed, whole
from quiver.cli.output import Output, OutputOption, show_document, show_record, show_rows
from quiver.cli.signature import option, with_options
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from quiver.client.admin.dead_letters import DeadLetterPage, TakenDeadLetters

app = typer.Typer(
    help="List, show, redrive and purge dead letters.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_LISTED = ("id", "died_at", "reason", "group", "attempts", "original", "key", "last_error")
_FILTER = {
    "group": "Only what this group gave up.",
    "reason": "Only these: max_attempts, rejected or expired.",
    "key": "Only messages with this key.",
    "contains": "Only where this text is in the value or in the last error.",
    "from_time": "Only what died then or later: RFC 3339, epoch milliseconds, or a time ago such as -2h.",
    "to_time": "Only what died then or before.",
    "partition": "Only this partition.",
}
_IDS = typer.Argument(metavar="[ID]...", show_default=False, help="Only these letters, such as 0:42.")

IdsArgument = Annotated[list[str] | None, _IDS]
LimitOption = Annotated[int | None, typer.Option(help="At most this many, the oldest first.", metavar="N", min=1)]
AllOption = Annotated[bool, typer.Option("--all", help="All dead letters of the topic.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")]


def _gather(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _FILTER if values[name] is not None}


_with_filter = with_options(
    [
        option(name, int | None if name == "partition" else str | None, help=text, metavar="VALUE")
        for name, text in _FILTER.items()
    ],
    "words",
    _gather,
)


@app.command("list")
@_with_filter
def list_letters(
    topic: TopicArgument,
    words: dict[str, Any],
    limit: Annotated[int, typer.Option("--limit", "-n", help="Letters to show.", metavar="N", min=1)] = 100,
    after: Annotated[str | None, typer.Option(help="Where the list before ended.", metavar="PLACE")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the dead letters of a topic, oldest first."""
    with connect(address) as q:
        page = q.dead_letters.list(topic, limit=limit, after=after, newest_first=newest, **words)
    if output is not Output.TABLE:
        show_document(
            {"messages": [whole(letter) for letter in page], "total": page.total, "next": page.next}, output
        )
        return
    show_rows([listed(letter) for letter in page], output, columns=_LISTED)
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
    """Show dead letters whole: value, headers, and what became of them."""
    with connect(address) as q:
        letters = [whole(q.dead_letters.get(topic, id)) for id in ids]
    if output is not Output.TABLE:
        show_document(letters, output)
        return
    for number, letter in enumerate(letters):
        if number:
            print()
        original = letter.pop("original") or {}
        show_record(letter | {f"original_{name}": value for name, value in original.items()}, output)


@app.command("redrive")
@_with_filter
def redrive(
    topic: TopicArgument,
    words: dict[str, Any],
    ids: IdsArgument = None,
    to: Annotated[
        str | None,
        typer.Option(autocompletion=complete_topics, metavar="TOPIC", help="Not where they came from, but there."),
    ] = None,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send dead letters back to the topic they came from: the ids given, what a filter finds, or all."""
    words |= {"ids": ids} if ids else {}
    with connect(address) as q:
        taken = q.dead_letters.redrive(topic, to=to, limit=limit, dry_run=dry_run, **words)
    _show_taken("redriven", taken, output, dry_run=dry_run)


@app.command("purge")
@_with_filter
def purge(
    topic: TopicArgument,
    words: dict[str, Any],
    ids: IdsArgument = None,
    all: AllOption = False,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove dead letters for good: the ids given, what a filter finds, or --all. Asks first in a terminal."""
    words = _chosen(words, ids, all=all)
    with connect(address) as q:
        if not (yes or dry_run) and sys.stdin.isatty() and sys.stdout.isatty():
            count = q.dead_letters.purge(topic, limit=limit, dry_run=True, **words).letter_count
            typer.confirm(f"Remove {count} dead letters of {topic} for good?", abort=True)
        taken = q.dead_letters.purge(topic, limit=limit, dry_run=dry_run, **words)
    _show_taken("purged", taken, output, dry_run=dry_run)


def _chosen(words: dict[str, Any], ids: list[str] | None, *, all: bool) -> dict[str, Any]:
    """Everything is only meant where it is said."""
    if all == bool(ids or words):
        raise InvalidRequest(problem="say which: ids such as 0:42, a filter such as --reason rejected, or --all")
    return words | ({"ids": ids} if ids else {})


def _show_taken(done: str, taken: "TakenDeadLetters", output: Output, *, dry_run: bool) -> None:
    if output is not Output.TABLE:
        document = {done: taken.letter_count, "dry_run": dry_run, "ids": taken.ids, "not_found": taken.missing}
        show_document(document, output)
        return
    print(f"{taken.letter_count} {'would be ' if dry_run else ''}{done}")
    for id in taken.missing:
        print(f"{id} is not there")


def _show_rest(page: "DeadLetterPage") -> None:
    if page.next is not None:
        print(f"\n{len(page)} of {page.total}; go on with --after {page.next}")

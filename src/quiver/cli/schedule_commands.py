"""`quiver schedule add|list|describe|alter|pause|resume|run|remove`."""

import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, TopicArgument, complete_topics, connect
from quiver.cli.message_format import Row, to_object
from quiver.cli.output import Output, OutputOption, show_record, show_rows
from quiver.cli.produce_command import parse_headers
from quiver.model.errors import InvalidRequest
from quiver.model.priority import NAMES, parse_priority
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.protocol.schedule_messages import ScheduleInfo

app = typer.Typer(
    help="Send messages at recurring times: add, list, describe, alter, pause, resume, run, remove.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_LISTED = ("name", "cron", "timezone", "topic", "next_run", "last_run", "fired_count", "paused", "error")
_COMPLETION_SECONDS = 1.0
_CRON_HELP = 'Five fields ("*/5 * * * *"), six with seconds in front, @daily and the like, or "@every 30s".'


def _complete(context: typer.Context, incomplete: str) -> list[str]:
    """Names that begin with what was typed; none when the broker cannot be asked quickly."""
    import quiver

    address = context.params.get("address") or os.environ.get("QUIVER_ADDRESS") or DEFAULT_ADDRESS
    try:
        with quiver.connect(address, timeout=_COMPLETION_SECONDS) as q:
            return [schedule.name for schedule in q.schedules.list() if schedule.name.startswith(incomplete)]
    except Exception:  # a shell that completes has no place for an error
        return []


NameArgument = Annotated[str, typer.Argument(metavar="NAME", autocompletion=_complete, show_default=False)]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", autocompletion=_complete, show_default=False)]
KeyOption = Annotated[str | None, typer.Option("--key", "-k", help="The key of the messages.")]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", help="A header of the messages.", metavar="NAME=VALUE")
]
PriorityOption = Annotated[str | None, typer.Option(help="critical, high, normal, low or background.")]
TimezoneOption = Annotated[str | None, typer.Option(help="Such as Europe/Berlin; UTC if it is never given.")]


@app.command("add")
def add(
    cron: Annotated[str, typer.Argument(metavar="CRON", show_default=False, help=_CRON_HELP)],
    topic: TopicArgument,
    value: Annotated[str, typer.Argument(metavar="VALUE", show_default=False, help="What is sent.")],
    name: Annotated[str | None, typer.Option(help="Its name; made up when it is not given.")] = None,
    key: KeyOption = None,
    header: HeaderOption = None,
    priority: PriorityOption = None,
    timezone: TimezoneOption = None,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send VALUE to TOPIC at the times of CRON, from now on."""
    with connect(address) as q:
        added = q.schedules.add(
            cron,
            topic,
            os.fsencode(value),
            name=name,
            key=None if key is None else os.fsencode(key),
            headers=parse_headers(header),
            priority=parse_priority(priority),
            timezone=timezone or "UTC",
        )
    show_record(_shown(added), output)


@app.command("list")
def list_schedules(address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """List the schedules with their next and last run."""
    with connect(address) as q:
        rows = [_shown(schedule) for schedule in q.schedules.list()]
    show_rows(rows, output, columns=_LISTED if output is Output.TABLE else ())


@app.command("describe")
def describe(
    name: NameArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Show a schedule and what it sends."""
    with connect(address) as q:
        show_record(_shown(q.schedules.get(name)), output)


@app.command("alter")
def alter(
    name: NameArgument,
    cron: Annotated[str | None, typer.Option(help=_CRON_HELP)] = None,
    timezone: TimezoneOption = None,
    topic: Annotated[str | None, typer.Option(autocompletion=complete_topics, help="Where it is sent.")] = None,
    value: Annotated[str | None, typer.Option(help="What is sent.")] = None,
    key: KeyOption = None,
    header: HeaderOption = None,
    priority: PriorityOption = None,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Change a schedule; what is not named stays as it is."""
    given: dict[str, Any] = {"cron": cron, "timezone": timezone, "topic": topic, "priority": priority}
    given["value"] = None if value is None else os.fsencode(value)
    given["key"] = None if key is None else os.fsencode(key)
    given["headers"] = parse_headers(header)
    changes = {field: new for field, new in given.items() if new is not None}
    if not changes:
        raise InvalidRequest(problem='nothing to change: name at least one, such as --cron "0 3 * * *"')
    with connect(address) as q:
        show_record(_shown(q.schedules.alter(name, **changes)), output)


@app.command("pause")
def pause(
    names: NamesArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Stop schedules from firing, until they are resumed."""
    with connect(address) as q:
        rows = [_shown(q.schedules.pause(name)) for name in names]
    show_rows(rows, output, columns=_LISTED if output is Output.TABLE else ())


@app.command("resume")
def resume(
    names: NamesArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE
) -> None:
    """Let paused schedules fire again."""
    with connect(address) as q:
        rows = [_shown(q.schedules.resume(name)) for name in names]
    show_rows(rows, output, columns=_LISTED if output is Output.TABLE else ())


@app.command("run")
def run(name: NameArgument, address: AddressOption = DEFAULT_ADDRESS, output: OutputOption = Output.TABLE) -> None:
    """Send the message of a schedule now, once; its own times stay as they are."""
    with connect(address) as q:
        show_record(_shown(q.schedules.run(name)), output)


@app.command("remove")
def remove(
    names: NamesArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove schedules. Asks first when run from a terminal."""
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        typer.confirm(f"Remove {', '.join(names)}?", abort=True)
    with connect(address) as q:
        for name in names:
            q.schedules.remove(name)
    show_rows([{"name": name, "deleted": True} for name in names], output)


def _shown(schedule: "ScheduleInfo") -> dict[str, Any]:
    """A schedule in the words of the HTTP answer."""
    content = to_object(
        Row(
            schedule.topic,
            0,
            0,
            0,
            schedule.key,
            schedule.value,
            schedule.headers,
            NAMES[schedule.priority],
        )
    )
    for field in ("topic", "partition", "offset", "timestamp"):
        del content[field]
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "topic": schedule.topic,
        **content,
        "paused": schedule.is_paused,
        "created_at": format_time(schedule.created_at_ms),
        "next_run": None if schedule.next_ms is None else format_time(schedule.next_ms),
        "last_run": None if schedule.last_ms is None else format_time(schedule.last_ms),
        "fired_count": schedule.fired_count,
        "error": schedule.error or None,
    }

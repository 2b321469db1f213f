"""`quiver work module:function`: runs a handler as a consumer of a queue group."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption
from quiver.cli.lazy_group import command_app
from quiver.cli.options.names import complete_groups, complete_topics
from quiver.cli.work.handler_import import load_handler
from quiver.cli.work.status import status
from quiver.model.errors import InvalidRequest
from quiver.system.clock import SystemClock

_LOOK_SECONDS = 0.1


def work(
    target: Annotated[
        str,
        typer.Argument(metavar="MODULE:FUNCTION", help="The handler, called with each job.", show_default=False),
    ],
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", autocompletion=complete_topics, help="A topic with jobs; may be repeated."),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", "-g", autocompletion=complete_groups, help="The queue group.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", "-c", help="Jobs at a time. [default: 1]")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option("--ordering", help="none, or key: in order within each key."),
    ] = None,
    visibility: Annotated[
        str | None, typer.Option("--visibility", help="How long a lease lasts unless it is renewed, such as 30s.")
    ] = None,
    priority: Annotated[str | None, typer.Option("--priority", help="Only jobs of this priority.")] = None,
    prefetch: Annotated[int | None, typer.Option("--prefetch", help="Jobs to receive ahead; 0: none.")] = None,
    consumer: Annotated[str | None, typer.Option("--consumer", help="The name that max_unacked counts by.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="Where a new group starts: earliest, latest, an offset, a time.")
    ] = None,
    address: AddressOption = DEFAULT_ADDRESS,
) -> None:
    """Call a function with every job: returning acks it, an exception retries it, quiver.Reject dead-letters it."""
    from quiver.cli.work.run import run_of

    handler = load_handler(target)
    given = {
        "topics": topic,
        "group": group,
        "concurrency": concurrency,
        "ordering": ordering,
        "visibility": visibility,
        "priority": priority,
        "prefetch": prefetch,
        "consumer": consumer,
        "start": start,
    }
    options = _registered(handler) | {name: value for name, value in given.items() if value is not None}
    if not options.get("topics") or not options.get("group"):
        raise InvalidRequest(problem="give --topic and --group, or register the function with @q.worker")
    run = run_of(address, handler, options)
    with _signals() as received, status(_title(options), SystemClock()) as show:
        run.start()
        is_stopping = False
        while not run.is_over(_LOOK_SECONDS):
            show(run.counters)
            if received and not is_stopping:
                is_stopping = True
                run.stop()
                typer.echo("quiver: stopping after the running jobs (a second signal stops at once)", err=True)
            if len(received) > 1:
                typer.echo(
                    "quiver: running jobs were abandoned; they are delivered again when their leases end", err=True
                )
                raise typer.Exit(128 + received[0])
        show(run.counters)
    run.result()
    counters = run.counters
    typer.echo(
        f"{counters.processed:,} processed, {counters.failed:,} failed, {counters.rejected:,} rejected", err=True
    )


def _registered(handler: Any) -> dict[str, Any]:
    """The options that @q.worker was given."""
    from quiver.client.work.worker_definition import WORKER_MARK, WorkerDefinition

    known = getattr(handler, WORKER_MARK, None)
    if not isinstance(known, WorkerDefinition):
        return {}
    return {"topics": known.topics, "group": known.group, "concurrency": known.concurrency, **known.options}


def _title(options: dict[str, Any]) -> str:
    topics = options["topics"]
    return f"{options['group']} on {topics if isinstance(topics, str) else ', '.join(topics)}"


@contextmanager
def _signals() -> Iterator[list[int]]:
    """SIGTERM and SIGINT, in the order in which they come; the main thread looks at the list between its steps."""
    received: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, frame: received.append(number)) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


app = command_app(work)

"""The `quiver` command: its subcommands, and how errors become exit statuses."""

import os
import sys
from typing import Annotated, ClassVar

import typer

from quiver.cli.connection import ADDRESS_VARIABLE
from quiver.cli.lazy_group import LazyGroup, Subcommand
from quiver.model.errors import QuiverError


class _Commands(LazyGroup):
    subcommands: ClassVar[dict[str, Subcommand]] = {
        "serve": Subcommand("quiver.cli.commands.serve", "Run a broker."),
        "topic": Subcommand("quiver.cli.commands.topics", "List, create, describe, alter and delete topics."),
        "produce": Subcommand("quiver.cli.commands.produce", "Send arguments, standard input or files."),
        "consume": Subcommand("quiver.cli.commands.consume", "Print messages."),
        "search": Subcommand("quiver.cli.search.command", "Find messages that fit an expression."),
        "group": Subcommand("quiver.cli.commands.groups", "List, describe, alter, reset and delete groups."),
        "dlq": Subcommand("quiver.cli.commands.dead_letters", "List, show, redrive and purge dead letters."),
        "delayed": Subcommand("quiver.cli.commands.delayed", "List and cancel delayed messages."),
        "schedule": Subcommand("quiver.cli.commands.schedules", "Send messages at recurring times."),
        "txn": Subcommand("quiver.cli.commands.transactions", "List, describe and abort transactions."),
        "trace": Subcommand("quiver.cli.commands.traces", "Show what happened to messages."),
        "work": Subcommand("quiver.cli.commands.work", "Run a function as a worker of a queue group."),
        "pipeline": Subcommand("quiver.cli.commands.pipeline", "Run jobs on Spark: archive, replay, compact."),
        "cluster": Subcommand("quiver.cli.cluster.command", "Show the workers of a broker."),
        "top": Subcommand("quiver.cli.commands.top", "Show what a broker does, live."),
        "doctor": Subcommand("quiver.cli.commands.doctor", "Check a broker and its data, and say what to do."),
        "storage": Subcommand("quiver.cli.storage.command", "Show and update the tables of a database."),
        "config": Subcommand("quiver.cli.commands.config", "Show the configuration and where each value came from."),
    }


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import quiver

        typer.echo(f"quiver {quiver.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
    address: Annotated[
        str | None, typer.Option("--address", "-a", help="The broker's native address, for any command.")
    ] = None,
) -> None:
    """Quiver: a message broker. One log for streams, queues and tables."""
    if address is not None:
        os.environ[ADDRESS_VARIABLE] = address  # every command reads its address from there


def run(arguments: list[str]) -> int:
    """Runs one command line. Returns the exit status: 0 done, 1 refused or failed with one message, 2 wrong usage."""
    try:
        app(args=arguments, prog_name="quiver")
    except QuiverError as error:
        for line in error.message.splitlines():
            print(f"quiver: {line}", file=sys.stderr)
        return 1
    return 0

"""The `quiver` command: its subcommands, and how errors become exit statuses.

Commands import what they need when they run, so that `quiver --help` loads neither the SDK nor pyarrow.
"""

import sys
from typing import Annotated

import typer

from quiver.cli import config_command, consume_command, produce_command, serve_command, topic_commands
from quiver.model.errors import QuiverError

app = typer.Typer(
    help="Quiver: a message broker. One log for streams, queues and tables.",
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
) -> None:
    """Quiver: a message broker. One log for streams, queues and tables."""


app.command("serve")(serve_command.serve)
app.add_typer(topic_commands.app, name="topic")
app.command("produce")(produce_command.produce)
app.command("consume")(consume_command.consume)
app.command("config")(config_command.config)


def run(arguments: list[str]) -> int:
    """Runs one command line. Exit status 0: done; 1: refused or failed, with one message; 2: wrong usage."""
    try:
        app(args=arguments, prog_name="quiver")
    except QuiverError as error:
        for line in error.message.splitlines():
            print(f"quiver: {line}", file=sys.stderr)
        return 1
    return 0

"""A command group that imports a subcommand when it is used, and lists all of them without importing any."""

from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperGroup


class Subcommand(NamedTuple):
    module: str
    """Has a `typer.Typer` named `app`, with one command or a group of them."""
    summary: str


class LazyGroup(TyperGroup):
    """Subclasses name their subcommands."""

    subcommands: ClassVar[dict[str, Subcommand]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.subcommands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        found = self.subcommands.get(cmd_name)
        if found is None:
            return None
        command = typer.main.get_command(import_module(found.module).app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, found.summary) for name, found in self.subcommands.items()])


def command_app(command: Any) -> typer.Typer:
    """The `app` of a module with a single command."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(command)
    return app


def group_app(help: str) -> typer.Typer:
    """The `app` of a module with several commands."""
    return typer.Typer(
        help=help, no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )

"""The command line of a job, for `quiver pipeline` and for spark-submit."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer

from quiver.model.errors import QuiverError


def command_app(command: Callable[..., None]) -> typer.Typer:
    """The `app` of a module with one command."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(context_settings={"help_option_names": ["-h", "--help"]})(command)
    return app


def run_command(job: str, argv: list[str]) -> int:
    """Exit status 0: done; 1: refused or failed, with one message; 2: wrong usage."""
    app: Any = import_module(f"quiver_spark.jobs.{job}.command").app
    try:
        app(args=argv, prog_name=f"quiver pipeline {job}")
    except QuiverError as error:
        for line in error.message.splitlines():
            typer.echo(f"quiver: {line}", err=True)
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0

"""`quiver pipeline run`."""

from pathlib import Path
from typing import Annotated

import typer

from quiver_spark.declarative.run import run_pipeline

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "ignore_unknown_options": True,
        "allow_extra_args": True,
    }
)
def run(
    context: typer.Context,
    directory: Annotated[str, typer.Argument(metavar="[DIR]", help="The project.")] = ".",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the flows, write nothing.")] = False,
) -> None:
    """Run a declarative pipeline once: everything that has come since the last run, exactly once.

    Other options are those of `spark-pipelines run`, such as --refresh orders or --full-refresh-all.
    """
    status = run_pipeline(Path(directory), context.args, dry_run=dry_run)
    if status:
        raise typer.Exit(1)

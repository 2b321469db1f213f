"""`quiver pipeline vacuum`."""

from typing import Annotated

import typer

from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import Output, OutputOption, show_summary


def vacuum(
    lake: Annotated[str, typer.Option("--lake", metavar="PLACE", help="The lake: a directory or a URI.")] = ...,  # type: ignore[assignment]
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Only files of this age, in hours or days. No run may last longer.")
    ] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the files and remove none.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove files of a lake that do not count: replaced ones, and those of runs that failed."""
    from quiver_spark.jobs import vacuum as job

    show_summary(job.run(lake, older_than=older_than, dry_run=dry_run), output)


app = command_app(vacuum)

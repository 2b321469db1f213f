"""`quiver pipeline lineage`."""

from typing import Annotated

import typer

from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    BootstrapOption,
    ConfOption,
    EndOption,
    LossOption,
    MasterOption,
    Output,
    OutputOption,
    PathOption,
    ProgressOption,
    StartOption,
    TimeoutOption,
    session_later,
    show_summary,
    source_options,
)


def lineage(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    pattern: Annotated[str | None, typer.Option(help="Topics by a pattern, in place of names.")] = None,
    message: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC/PARTITION/OFFSET", help="Show what this message came from, and what came from it."
        ),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the topics as a flow chart (Mermaid).")
    ] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    start: StartOption = None,
    end: EndOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many offsets would be read.")] = False,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show from which topics to which messages went: dead letters, lineage headers, traces."""
    source = source_options(
        topics or (),
        pattern,
        bootstrap=bootstrap,
        path=path,
        start=start,
        end=end,
        timeout=timeout,
        failOnDataLoss=fail_on_data_loss,
    )
    spark = session_later("lineage", master, conf)
    from quiver_spark.jobs import lineage as job

    show_summary(job.run(spark, source, message=message, out=out, dry_run=dry_run, show_progress=progress), output)


app = command_app(lineage)

"""`quiver pipeline profile`."""

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


def profile(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    start: StartOption = None,
    end: EndOption = None,
    sample: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Look at this share of the messages, such as 0.1.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many offsets would be read.")] = False,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the columns and JSON fields of a topic: types, nulls, distinct values, sizes."""
    source = source_options(
        [topic],
        bootstrap=bootstrap,
        path=path,
        start=start,
        end=end,
        timeout=timeout,
        failOnDataLoss=fail_on_data_loss,
    )
    spark = session_later("profile", master, conf)
    from quiver_spark.jobs import profile as job

    show_summary(job.run(spark, source, sample=sample, dry_run=dry_run, show_progress=progress), output)


app = command_app(profile)

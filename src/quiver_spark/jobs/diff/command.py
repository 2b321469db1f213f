"""`quiver pipeline diff`."""

from enum import StrEnum
from typing import Annotated, Any

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

FOUND = 3
"""The exit status when there is a difference."""


class By(StrEnum):
    CONTENT = "content"
    OFFSET = "offset"
    KEY = "key"


def diff(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    other: Annotated[str | None, typer.Argument(metavar="[OTHER]", show_default=False)] = None,
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="DIR", help="Compare with the topic in a lake, OTHER if named.")
    ] = None,
    by: Annotated[
        By,
        typer.Option(help="Which messages are compared with each other: equal ones, by offset, the last of a key."),
    ] = By.CONTENT,
    columns: Annotated[str, typer.Option(metavar="NAMES", help="What must be equal.")] = "key,value,headers",
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    other_bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The broker of OTHER; that of --bootstrap if absent.")
    ] = None,
    start: StartOption = None,
    end: EndOption = None,
    show: Annotated[int, typer.Option(metavar="N", min=0, help="Differences to show.")] = 20,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many offsets would be read.")] = False,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare two topics, or a topic with its archive in a lake.

    Exit status: 0 no difference, 3 some, 1 the comparison failed, 2 wrong usage.
    """
    spark = session_later("diff", master, conf)
    words: dict[str, Any] = {"start": start, "end": end, "timeout": timeout, "failOnDataLoss": fail_on_data_loss}
    left = source_options([topic], bootstrap=bootstrap, path=path, **words)
    is_remote = other_bootstrap is not None
    right = source_options(
        [other or topic], bootstrap=other_bootstrap or bootstrap, path=None if is_remote else path, **words
    )
    from quiver_spark.jobs import diff as job

    summary = job.run(
        spark,
        left,
        right if other or is_remote else None,
        lake=lake,
        by=by.value,
        columns=[name.strip() for name in columns.split(",")],
        shown=show,
        dry_run=dry_run,
        show_progress=progress,
    )
    show_summary(summary, output)
    if not dry_run and not summary.details["is_same"]:
        raise typer.Exit(FOUND)


app = command_app(diff)

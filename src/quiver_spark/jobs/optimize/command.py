"""`quiver pipeline optimize`."""

from typing import Annotated

import typer

from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    ConfOption,
    MasterOption,
    Output,
    OutputOption,
    ProgressOption,
    session_later,
    show_summary,
)


def optimize(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    lake: Annotated[str, typer.Option("--lake", metavar="PLACE", help="The lake: a directory or a URI.")] = ...,  # type: ignore[assignment]
    sort_by: Annotated[
        str | None, typer.Option(metavar="COLUMNS", help="Write all files again, sorted by these: key,timestamp.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="DDL", help="Write all files again with columns for fields of JSON values: DDL, or a file."
        ),
    ] = None,
    compression: Annotated[str, typer.Option(help="zstd, snappy, lz4, gzip or none.")] = "zstd",
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Join small files of a lake; sort rows, or add columns for fields of JSON values."""
    spark = session_later("optimize", master, conf)
    from quiver_spark.jobs import optimize as job

    summary = job.run(
        spark,
        lake,
        topics=topics or (),
        sort_by=[name.strip() for name in sort_by.split(",")] if sort_by else (),
        schema=schema,
        compression=compression,
        show_progress=progress,
    )
    show_summary(summary, output)


app = command_app(optimize)

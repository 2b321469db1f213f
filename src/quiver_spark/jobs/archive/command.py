"""`quiver pipeline archive`."""

from typing import Annotated

import typer

from quiver.model.times import parse_duration_ms
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

_HOUR_MS = 3_600_000


def archive(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    lake: Annotated[
        str, typer.Option("--lake", metavar="DIR", help="The directory of the lake; made if absent.")
    ] = ...,  # type: ignore[assignment]
    pattern: Annotated[str | None, typer.Option(help="Topics by a pattern, in place of names.")] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    start: StartOption = None,
    end: EndOption = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="Columns for fields of JSON values: DDL, or a file with DDL or JSON."),
    ] = None,
    infer_schema: Annotated[
        bool, typer.Option("--infer-schema", help="The same, inferred from the first messages.")
    ] = False,
    compression: Annotated[str, typer.Option(help="zstd, snappy, lz4, gzip or none.")] = "zstd",
    compact: Annotated[bool, typer.Option("--compact", help="Join small files of the lake afterwards.")] = False,
    vacuum: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Remove files that do not count and are older, such as 7d. No run may last longer."
        ),
    ] = None,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Archive topics into a lake, from where the last run ended."""
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
    age_hours = None if vacuum is None else parse_duration_ms(vacuum, "--vacuum") // _HOUR_MS
    spark = session_later("archive", master, conf)
    from quiver_spark.jobs import archive as job
    from quiver_spark.lake.table import open_lake

    summary = job.run(
        spark,
        source,
        lake,
        schema=schema,
        infer_schema=infer_schema,
        compression=compression,
        compact_small_files=compact,
        show_progress=progress,
    )
    if age_hours is not None:
        summary.details["files_removed"] = len(open_lake(lake).vacuum(age_hours))
    show_summary(summary, output)


app = command_app(archive)

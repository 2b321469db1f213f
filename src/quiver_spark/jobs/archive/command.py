"""`quiver pipeline archive`."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from quiver.model.errors import InvalidRequest
from quiver.model.times import parse_seconds
from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    BootstrapOption,
    ConfOption,
    EndOption,
    LocalFilesOption,
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

if TYPE_CHECKING:
    from quiver_spark.jobs.progress import Summary


def archive(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    lake: Annotated[
        str,
        typer.Option(
            "--lake", metavar="PLACE", help="A directory or s3://, gs://, abfs://, hdfs://; made if absent."
        ),
    ] = ...,  # type: ignore[assignment]
    pattern: Annotated[str | None, typer.Option(help="Topics by a pattern, in place of names.")] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    start: StartOption = None,
    end: EndOption = None,
    format: Annotated[str | None, typer.Option(help="Of a new lake: delta (if absent) or iceberg.")] = None,
    partition_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMNS", help="Of a new lake: some of topic, date, partition; topic,date if absent."),
    ] = None,
    catalog: Annotated[
        str | None, typer.Option(metavar="NAME", help="Iceberg: a catalog that pyiceberg is configured for.")
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAMESPACE.NAME", help="Iceberg: the table in that catalog.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="Columns for fields of JSON values: DDL, or a file with DDL or JSON."),
    ] = None,
    infer_schema: Annotated[
        bool, typer.Option("--infer-schema", help="The same, inferred from the first messages.")
    ] = False,
    compression: Annotated[str, typer.Option(help="zstd, snappy, lz4, gzip or none.")] = "zstd",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with what comes, until SIGTERM or SIGINT, and end cleanly.")
    ] = False,
    every: Annotated[str, typer.Option(metavar="TIME", help="With --follow: the pause between commits.")] = "10s",
    compact: Annotated[
        bool, typer.Option("--compact", help="Join small files of the lake; with --follow, now and then.")
    ] = False,
    vacuum: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Remove files that do not count and are older, such as 7d. No run may last longer."
        ),
    ] = None,
    fail_on_data_loss: LossOption = True,
    local_files: LocalFilesOption = None,
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
        localFiles=local_files,
    )
    spark = session_later("archive", master, conf)
    from quiver_spark.jobs import archive as job
    from quiver_spark.jobs.vacuum.job import age_in_hours
    from quiver_spark.lake.opening import lake_settings

    if vacuum is not None:
        age_in_hours(vacuum)
    words: dict[str, Any] = {
        "settings": lake_settings(format, partition_by, catalog, table),
        "schema": schema,
        "infer_schema": infer_schema,
        "compression": compression,
        "show_progress": progress,
    }
    if follow:
        if end is not None:
            raise InvalidRequest(problem="--follow has no end: leave out --to")
        from quiver_spark.jobs.archive.follow import FOLLOW_COMMIT_BYTES

        words |= {"commit_bytes": FOLLOW_COMMIT_BYTES, "show_progress": False}
        tidy = partial(_tidy, lake, vacuum, compression if compact else None)
        _follow(
            spark, partial(job.run, source=source, lake=lake, **words), tidy, parse_seconds(every, "--every"), output
        )
        return
    summary = job.run(spark, source, lake, compact_small_files=compact, **words)
    if vacuum is not None:
        from quiver_spark.jobs.vacuum import run as remove_unused

        summary.details["files_removed"] = remove_unused(lake, older_than=vacuum).files
    show_summary(summary, output)


def _follow(
    session: Callable[[], Any],
    run: "Callable[..., Summary]",
    tidy: Callable[[Any], None],
    every_seconds: float,
    output: Output,
) -> None:
    from quiver_spark.jobs.archive.follow import Follow, stopped_by_signals

    started: list[Any] = []

    def spark() -> Any:
        if not started:
            started.append(session())
        return started[0]

    with stopped_by_signals() as stop:

        def archive_once() -> "Summary":
            done = run(spark, stop=stop.is_set)
            spark()  # if it cannot start, that is known at once, also while there is nothing to archive
            return done

        total = Follow(archive_once, lambda: tidy(spark()), partial(_show_commit, output), every_seconds).until(stop)
    if output is not Output.JSON:
        show_summary(total, output)


def _show_commit(output: Output, summary: "Summary") -> None:
    """A line for each run that has archived something: JSON on standard output, else words on standard error."""
    if output is Output.JSON:
        typer.echo(msgspec.json.encode(summary.record()).decode())
    else:
        rows, files = f"{summary.rows:,}", f"{summary.files:,}"
        typer.echo(f"archived {rows} rows in {files} files, version {summary.details['version']}", err=True)


def _tidy(lake: str, vacuum: str | None, compression: str | None, spark: Any) -> None:
    from quiver_spark.jobs.optimize import run as optimize
    from quiver_spark.jobs.vacuum import run as remove_unused

    if compression is not None:
        optimize(spark, lake, compression=compression, show_progress=False)
    if vacuum is not None:
        remove_unused(lake, older_than=vacuum)


app = command_app(archive)

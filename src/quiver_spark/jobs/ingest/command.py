"""`quiver pipeline ingest`."""

from enum import StrEnum
from typing import Annotated, Any

import typer

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    BootstrapOption,
    CommitOption,
    ConfOption,
    MasterOption,
    Output,
    OutputOption,
    ProgressOption,
    session_later,
    settings,
    show_summary,
)


class Format(StrEnum):
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"


class Changed(StrEnum):
    ERROR = "error"
    SKIP = "skip"
    AGAIN = "again"


def ingest(
    places: Annotated[list[str] | None, typer.Argument(metavar="[FILE|DIR|PATTERN]...", show_default=False)] = None,
    to: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to write to; made if absent.")] = ...,  # type: ignore[assignment]
    format: Annotated[Format | None, typer.Option(help="Of all files; by the ending of each if absent.")] = None,
    key: Annotated[str | None, typer.Option(metavar="NAME", help="The field or column that is the key.")] = None,
    schema: Annotated[str | None, typer.Option(metavar="DDL", help="The columns of CSV and Parquet files.")] = None,
    changed: Annotated[
        Changed, typer.Option(help="A file that was ingested and is another one now.")
    ] = Changed.ERROR,
    jdbc: Annotated[str | None, typer.Option(metavar="URL", help="Rows of a database: jdbc:postgresql://...")] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="With --jdbc: the table.")] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --jdbc: a column of integers that grow with each row.")
    ] = None,
    jdbc_option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="With --jdbc: user, driver, ...; may be repeated.")
    ] = None,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="With --jdbc: how many values of the column make a commit.")
    ] = 1_000_000,
    partitions: Annotated[int, typer.Option(metavar="N", min=1, help="Of a topic that is made.")] = 3,
    bootstrap: BootstrapOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be read.")] = False,
    transaction_timeout: CommitOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write files, or the rows of a database table, into a topic: each once, from where the last run ended."""
    if (jdbc is None) == (not places):
        raise InvalidRequest(problem="name files and directories, or a database by --jdbc, one of them")
    if jdbc is not None and not (table and column):
        raise InvalidRequest(problem="--jdbc needs --table and --column")
    spark = session_later("ingest", master, conf)
    from quiver_spark.jobs import ingest as job
    from quiver_spark.options.option_map import DEFAULT_BOOTSTRAP

    common: dict[str, Any] = {
        "bootstrap": bootstrap or DEFAULT_BOOTSTRAP,
        "key": key,
        "partitions": partitions,
        "transaction_timeout": transaction_timeout,
        "dry_run": dry_run,
        "show_progress": progress,
    }
    if jdbc is not None:
        from quiver_spark.jobs.ingest.table import Table

        source = Table(jdbc, table or "", column or "", settings(jdbc_option or ()))
        summary = job.run_table(spark, source, to, batch_numbers=batch, **common)
    else:
        words: dict[str, Any] = {
            "format": format.value if format else None,
            "schema": schema,
            "changed": changed.value,
        }
        summary = job.run(spark, places or (), to, **words, **common)
    show_summary(summary, output)


app = command_app(ingest)

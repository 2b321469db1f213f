"""`quiver pipeline sql`."""

from typing import Annotated

import typer

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    BootstrapOption,
    CommitOption,
    ConfOption,
    LossOption,
    MasterOption,
    Output,
    OutputOption,
    PathOption,
    ProgressOption,
    TimeoutOption,
    session_later,
    show_summary,
    source_options,
)

_POSITION = "earliest, an offset, a time, a time ago (-2h), or JSON by partition."
FromOption = Annotated[
    list[str], typer.Option("--from", metavar="TOPIC", help="A topic that the query reads; may be repeated.")
]
ToOption = Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic to write to; made if absent.")]
KeyOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column whose text is the key as well.")]
SchemaOption = Annotated[
    str | None,
    typer.Option(metavar="DDL", help="The fields of JSON values: DDL, or a file with it; inferred if absent."),
]
StartOption = Annotated[str | None, typer.Option("--start", metavar="POSITION", help=f"Where to begin: {_POSITION}")]
EndOption = Annotated[
    str | None, typer.Option("--end", metavar="POSITION", help="Where to end; the latest if absent.")
]
IntoBootstrapOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The broker to write to; that of --bootstrap if absent.")
]
RunIdOption = Annotated[
    str | None, typer.Option(metavar="ID", help="A run with the same id is about the same messages, and writes once.")
]
StateOption = Annotated[str | None, typer.Option(metavar="DIR", help="Where the plans of runs with an id are kept.")]
StreamOption = Annotated[bool, typer.Option("--stream", help="Run until Ctrl-C, with what arrives.")]
CheckpointOption = Annotated[
    str | None, typer.Option(metavar="DIR", help="With --stream: where the query keeps how far it is.")
]
OnceOption = Annotated[bool, typer.Option("--once", help="With --stream: process what there is, and end.")]
EveryOption = Annotated[str, typer.Option(metavar="TIME", help="With --stream: how often a micro-batch begins.")]
UpdatesOption = Annotated[
    bool, typer.Option("--updates", help="With --stream: an aggregation writes each row again when it changes.")
]
WatermarkOption = Annotated[
    str | None, typer.Option(metavar="'COLUMN DELAY'", help="With --stream: how late rows may come: 'at 10 seconds'.")
]
MaxRowsOption = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="With --stream: messages of a micro-batch at most.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the columns and first rows, write nothing.")]


def sql(
    query: Annotated[str, typer.Argument(metavar="QUERY", show_default=False)],
    topics: FromOption = ...,  # type: ignore[assignment]
    to: ToOption = ...,  # type: ignore[assignment]
    key: KeyOption = None,
    schema: SchemaOption = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    into_bootstrap: IntoBootstrapOption = None,
    start: StartOption = None,
    end: EndOption = None,
    run_id: RunIdOption = None,
    state: StateOption = None,
    stream: StreamOption = False,
    checkpoint: CheckpointOption = None,
    once: OnceOption = False,
    every: EveryOption = "1 second",
    updates: UpdatesOption = False,
    watermark: WatermarkOption = None,
    max_rows: MaxRowsOption = None,
    dry_run: DryRunOption = False,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    transaction_timeout: CommitOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a SQL query over topics and write its result to a topic, once or as a stream; every row once."""
    _check(stream, {"--checkpoint": checkpoint, "--once": once, "--updates": updates, "--watermark": watermark,
                    "--max-rows": max_rows}, {"--end": end, "--run-id": run_id, "--state": state})  # fmt: skip
    source = source_options(
        topics,
        bootstrap=bootstrap,
        path=path,
        start=start,
        end=end,
        timeout=timeout,
        failOnDataLoss=fail_on_data_loss,
        maxRowsPerTrigger=max_rows,
    )
    spark = session_later("sql", master, conf)
    from quiver_spark.jobs import sql as job
    from quiver_spark.jobs.sql.stream import StreamSettings

    words = {"key": key, "schema": schema, "to_bootstrap": into_bootstrap or bootstrap, "dry_run": dry_run}
    common = {**words, "transaction_timeout": transaction_timeout, "show_progress": progress}
    if stream:
        settings = StreamSettings(checkpoint or "", once, every, updates, watermark)
        summary = job.run_stream(spark, query, source, to, settings, **common)  # type: ignore[arg-type]
    else:
        summary = job.run(spark, query, source, to, run_id=run_id, state=state, **common)  # type: ignore[arg-type]
    show_summary(summary, output)


def _check(stream: bool, of_streams: dict[str, object], of_batches: dict[str, object]) -> None:
    if stream and not of_streams["--checkpoint"]:
        raise InvalidRequest(problem="--stream needs --checkpoint DIR, where the query keeps how far it is")
    others = of_batches if stream else of_streams
    for name, value in others.items():
        if value:
            raise InvalidRequest(problem=f"{name} is for {'runs without --stream' if stream else '--stream'}")


app = command_app(sql)

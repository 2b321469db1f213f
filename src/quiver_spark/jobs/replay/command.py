"""`quiver pipeline replay`."""

from typing import Annotated

import typer

from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import (
    BootstrapOption,
    CommitOption,
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


def replay(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)],
    into: Annotated[str, typer.Option("--into", metavar="TOPIC", help="The topic to write to.")] = ...,  # type: ignore[assignment]
    lake: Annotated[
        str | None,
        typer.Option("--lake", metavar="DIR", help="Read from a lake; from the broker or --path if absent."),
    ] = None,
    topic_id: Annotated[
        int | None,
        typer.Option("--topic-id", metavar="N", help="With --lake: of topics that had the same name, only this one."),
    ] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    into_bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The broker to write to; that of --bootstrap if absent.")
    ] = None,
    start: StartOption = None,
    end: EndOption = None,
    partition: Annotated[list[int] | None, typer.Option(metavar="N", help="Only this one; may be repeated.")] = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="Only rows for which this is true.")] = None,
    rate: Annotated[int | None, typer.Option(metavar="N", min=1, help="Rows per second at most.")] = None,
    any_order: Annotated[
        bool, typer.Option("--any-order", help="Faster: messages of a partition may change their order.")
    ] = False,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="Write to the same partition; chosen by the key if absent.")
    ] = False,
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="A run with the same id resumes, and writes nothing twice.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the plans of runs with an id are kept.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count the rows and write nothing.")] = False,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    transaction_timeout: CommitOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write messages of a lake or of topics into a topic again, with key, timestamp, headers and priority."""
    source = source_options(
        topics,
        bootstrap=bootstrap,
        path=path,
        start=start,
        end=end,
        timeout=timeout,
        failOnDataLoss=fail_on_data_loss,
    )
    spark = session_later("replay", master, conf)
    from quiver_spark.jobs import replay as job

    summary = job.run(
        spark,
        source,
        into,
        lake=lake,
        topic_id=topic_id,
        to_bootstrap=into_bootstrap or bootstrap,
        transaction_timeout=transaction_timeout,
        partitions=partition,
        where=where,
        rate=rate,
        in_order=not any_order,
        keep_partitions=keep_partitions,
        run_id=run_id,
        state=state,
        dry_run=dry_run,
        show_progress=progress,
    )
    show_summary(summary, output)


app = command_app(replay)

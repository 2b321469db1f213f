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

TopicsArgument = Annotated[list[str], typer.Argument(metavar="TOPIC...", show_default=False)]
IntoOption = Annotated[str, typer.Option("--into", metavar="TOPIC", help="The topic to write to.")]
LakeOption = Annotated[
    str | None,
    typer.Option("--lake", metavar="DIR", help="Read from a lake; from the broker or --path if absent."),
]
TopicIdOption = Annotated[
    int | None,
    typer.Option("--topic-id", metavar="N", help="With --lake: of topics that had the same name, only this one."),
]
IntoBootstrapOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="The broker to write to; that of --bootstrap if absent.")
]
PartitionOption = Annotated[list[int] | None, typer.Option(metavar="N", help="Only this one; may be repeated.")]
WhereOption = Annotated[str | None, typer.Option(metavar="SQL", help="Only rows for which this is true.")]
RateOption = Annotated[int | None, typer.Option(metavar="N", min=1, help="Rows per second at most.")]
AnyOrderOption = Annotated[
    bool, typer.Option("--any-order", help="Faster: messages of a partition may change their order.")
]
KeepPartitionsOption = Annotated[
    bool, typer.Option("--keep-partitions", help="Write to the same partition; chosen by the key if absent.")
]
LineageOption = Annotated[
    bool, typer.Option("--lineage", help="Add to the header quiver-lineage where each message was.")
]
RunIdOption = Annotated[
    str | None, typer.Option(metavar="ID", help="A run with the same id resumes, and writes nothing twice.")
]
StateOption = Annotated[str | None, typer.Option(metavar="DIR", help="Where the plans of runs with an id are kept.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Count the rows and write nothing.")]


def replay(
    topics: TopicsArgument,
    into: IntoOption = ...,  # type: ignore[assignment]
    lake: LakeOption = None,
    topic_id: TopicIdOption = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    into_bootstrap: IntoBootstrapOption = None,
    start: StartOption = None,
    end: EndOption = None,
    partition: PartitionOption = None,
    where: WhereOption = None,
    rate: RateOption = None,
    any_order: AnyOrderOption = False,
    keep_partitions: KeepPartitionsOption = False,
    lineage: LineageOption = False,
    run_id: RunIdOption = None,
    state: StateOption = None,
    dry_run: DryRunOption = False,
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
        lineage=lineage,
        run_id=run_id,
        state=state,
        dry_run=dry_run,
        show_progress=progress,
    )
    show_summary(summary, output)


app = command_app(replay)

"""`quiver pipeline compact`."""

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


def compact(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", show_default=False)],
    into: Annotated[
        str | None, typer.Option("--into", metavar="TOPIC", help="The topic to write to; made if absent.")
    ] = None,
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="DIR", help="Write into a lake of last values; made if absent.")
    ] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    into_bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="The broker to write to; that of --bootstrap if absent.")
    ] = None,
    start: StartOption = None,
    end: EndOption = None,
    keep_tombstones: Annotated[
        bool, typer.Option("--keep-tombstones", help="Keep keys whose last message has no value.")
    ] = False,
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="In place of one made from what is read; the same writes once.")
    ] = None,
    fail_on_data_loss: LossOption = True,
    timeout: TimeoutOption = None,
    transaction_timeout: CommitOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write the last message of each key into another topic or a lake."""
    source = source_options(
        [topic],
        bootstrap=bootstrap,
        path=path,
        start=start,
        end=end,
        timeout=timeout,
        failOnDataLoss=fail_on_data_loss,
    )
    spark = session_later("compact", master, conf)
    from quiver_spark.jobs import compact as job

    summary = job.run(
        spark,
        source,
        to=into,
        lake=lake,
        to_bootstrap=into_bootstrap or bootstrap,
        transaction_timeout=transaction_timeout,
        keep_tombstones=keep_tombstones,
        run_id=run_id,
        show_progress=progress,
    )
    show_summary(summary, output)


app = command_app(compact)

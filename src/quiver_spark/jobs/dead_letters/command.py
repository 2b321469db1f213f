"""`quiver pipeline dead-letters report|redrive`."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from quiver_spark.jobs.command_options import (
    BootstrapOption,
    ConfOption,
    EndOption,
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

app = typer.Typer(
    help="Report on dead letters, and redrive selections of them.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Bucket(StrEnum):
    HOUR = "hour"
    DAY = "day"


TopicsArgument = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC", show_default=False, help="Topics, or their dead-letter topics."),
]
PatternOption = Annotated[
    str | None, typer.Option(metavar="REGEX", help="All topics whose whole name matches, in place of names.")
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        metavar="SQL",
        help="Only dead letters for which this is true: SQL over topic, partition, offset, group, reason, error,"
        " attempts, first_delivered, died_at, key, value, headers and more.",
    ),
]
GroupOption = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only dead letters of this group; may be repeated.")
]
ReasonOption = Annotated[
    list[str] | None,
    typer.Option(metavar="REASON", help="Only these: max_attempts, rejected or expired; may be repeated."),
]
ErrorOption = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", help="Only errors like this, such as '%timeout%'; may be repeated."),
]


@app.command("report")
def report(
    topics: TopicsArgument = None,
    pattern: PatternOption = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    start: StartOption = None,
    end: EndOption = None,
    where: WhereOption = None,
    group: GroupOption = None,
    reason: ReasonOption = None,
    error_like: ErrorOption = None,
    bucket: Annotated[Bucket, typer.Option(help="How finely dead letters are counted by time.")] = Bucket.HOUR,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many errors are shown.")] = 10,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write report.json and the tables as CSV there.")
    ] = None,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count dead letters by topic, group, reason, error, attempts and time; of all topics if none is named."""
    source = source_options(
        topics or (), pattern, bootstrap=bootstrap, path=path, start=start, end=end, timeout=timeout
    )
    spark = session_later("dead-letters report", master, conf)
    from quiver_spark.jobs import dead_letters as job

    summary = job.report(
        spark,
        source,
        where=where,
        groups=group or (),
        reasons=reason or (),
        errors=error_like or (),
        bucket=bucket,
        top=top,
        out=out,
        show_progress=progress,
    )
    _show_report(summary, output)


@app.command("redrive")
def redrive(
    topics: TopicsArgument = None,
    pattern: PatternOption = None,
    bootstrap: BootstrapOption = None,
    start: StartOption = None,
    end: EndOption = None,
    where: WhereOption = None,
    group: GroupOption = None,
    reason: ReasonOption = None,
    error_like: ErrorOption = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="TOPIC", help="Send them there instead of where they came from.")
    ] = None,
    rate: Annotated[int | None, typer.Option(metavar="N", min=1, help="Dead letters per second at most.")] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many, the oldest first.")] = None,
    run_id: Annotated[
        str | None, typer.Option(metavar="ID", help="A run with the same id redrives what is left of its selection.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the plans of runs with an id are kept.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen and change nothing.")] = False,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Redrive the selected dead letters to the topics they came from, each once."""
    source = source_options(topics or (), pattern, bootstrap=bootstrap, start=start, end=end, timeout=timeout)
    spark = session_later("dead-letters redrive", master, conf)
    from quiver_spark.jobs import dead_letters as job

    summary = job.redrive(
        spark,
        source,
        where=where,
        groups=group or (),
        reasons=reason or (),
        errors=error_like or (),
        into=into,
        rate=rate,
        limit=limit,
        run_id=run_id,
        state=state,
        dry_run=dry_run,
        show_progress=progress,
    )
    _show_redriven(summary, output)


def _show_report(summary: "Summary", output: Output) -> None:
    from quiver_spark.jobs.dead_letters.report import TITLES, report_text

    if output is not Output.TABLE:
        show_summary(summary, output)
        return
    shown, found = summary.details, {name: summary.details[name] for name in TITLES}
    if not summary.rows:
        read = shown["messages_read"]
        typer.echo(f"no dead letters fit ({read:,} looked at)" if read else "there are no dead letters")
        return
    dead_letters = f"{summary.rows:,} dead letter{'s' if summary.rows > 1 else ''}"
    typer.echo(f"{dead_letters}, from {shown['first']} to {shown['last']}\n\n{report_text(found)}\n")
    written = f", {summary.files} files written" if summary.files else ""
    typer.echo(f"{shown['messages_read']:,} messages read in {summary.seconds:.1f} s{written}")


def _show_redriven(summary: "Summary", output: Output) -> None:
    if output is not Output.TABLE:
        show_summary(summary, output)
        return
    shown = summary.details
    verb = "would be redriven" if shown["dry_run"] else "redriven"
    if not summary.rows and not shown["gone"]:
        typer.echo(f"no dead letters fit: nothing {'would be' if shown['dry_run'] else 'was'} redriven")
        return
    goal = f" into {shown['into']}" if shown["into"] else ""
    typer.echo(f"{summary.rows:,} {verb}{goal} in {summary.seconds:.1f} s")
    for topic, count in shown["topics"].items():
        ids = ", ".join(shown["ids"][topic])
        typer.echo(f"  {topic}: {count:,}  ({ids}{' ...' if count > len(shown['ids'][topic]) else ''})")
    if shown["gone"]:
        typer.echo(f"  {shown['gone']:,} no longer existed")

"""`quiver pipeline latency`."""

from enum import StrEnum
from typing import Annotated, Any

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
    source_options,
)


class By(StrEnum):
    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


def latency(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    path: Annotated[
        str, typer.Option("--path", metavar="DIR", help="The broker's data directory, or a copy of it.")
    ] = ...,  # type: ignore[assignment]
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the report goes; made if absent.")] = ...,  # type: ignore[assignment]
    pattern: Annotated[str | None, typer.Option(help="Topics by a pattern, in place of names.")] = None,
    group: Annotated[list[str] | None, typer.Option("--group", help="Only this group; may be repeated.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="What happened since a time, or a time ago (-1d).")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="What happened before a time.")] = None,
    by: Annotated[By, typer.Option(help="How long the intervals of the report are.")] = By.HOUR,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many records would be read.")] = False,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Report how long messages wait for delivery and ack: figures, a chart and a page."""
    source = source_options(topics or (), pattern, path=path, start=start, end=end)
    spark = session_later("latency", master, conf)
    from quiver_spark.jobs import latency as job

    summary = job.run(spark, source, out, groups=group or (), by=by.value, dry_run=dry_run, show_progress=progress)
    if output is Output.TABLE and not dry_run:
        for line in totals_table(summary.details.pop("totals")):
            typer.echo(line)
        typer.echo()
    show_summary(summary, output)


def totals_table(totals: list[dict[str, Any]]) -> list[str]:
    """Lines for people: medians and 99th percentiles of each topic and group. Pure."""
    measures = {"publish_to_delivery": "to delivery", "delivery_to_ack": "to ack", "publish_to_ack": "in all"}
    heads = ["topic", "group", "acked", "again", "dead", *(f"{name} p50 / p99" for name in measures.values())]
    rows = [heads]
    for cell in totals:
        counts = [f"{cell[name]:,}" for name in ("acks", "redeliveries", "dead_letters")]
        rows.append([cell["topic"], cell["group"], *counts, *(_pair(cell, measure) for measure in measures)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if place < 2 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _pair(cell: dict[str, Any], measure: str) -> str:
    from quiver_spark.jobs.latency.scale import shown_ms

    if not cell[f"{measure}_count"]:
        return "-"
    return f"{shown_ms(cell[f'{measure}_p50_ms'])} / {shown_ms(cell[f'{measure}_p99_ms'])}"


app = command_app(latency)

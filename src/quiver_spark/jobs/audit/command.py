"""`quiver pipeline audit`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from quiver_spark.jobs.command_line import command_app
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
    from quiver_spark.jobs.audit.finding import Finding
    from quiver_spark.jobs.audit.job import AuditSummary

FOUND = 3
"""The exit status when something is wrong."""
SHOWN = 20
"""Findings of one kind in a table."""


def audit(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC]...", show_default=False)] = None,
    pattern: Annotated[str | None, typer.Option(help="Topics by a pattern, in place of names.")] = None,
    bootstrap: BootstrapOption = None,
    path: PathOption = None,
    lake: Annotated[
        str | None, typer.Option("--lake", metavar="DIR", help="An archive of the topics, to be compared with them.")
    ] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Compare every message with the lake.")] = False,
    start: StartOption = None,
    end: EndOption = None,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", min=1, help="Findings of each kind to keep; all are counted.")
    ] = 1000,
    timeout: TimeoutOption = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    progress: ProgressOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the frames of topics: checksums, offsets, order, repeats; and their archive.

    Exit status: 0 nothing is wrong, 3 something is, 1 the audit failed, 2 wrong usage.
    """
    source = source_options(
        topics or (), pattern, bootstrap=bootstrap, path=path, start=start, end=end, timeout=timeout
    )
    spark = session_later("audit", master, conf)
    from quiver_spark.jobs import audit as job

    summary = job.run(spark, source, lake=lake, deep=deep, keep=keep, show_progress=progress)
    if output is Output.TABLE:
        show_summary(summary, output)
        for line in findings_table(summary):
            typer.echo(line)
    else:
        _show_document(summary, output)
    if not summary.is_clean:
        raise typer.Exit(FOUND)


def _show_document(summary: "AuditSummary", output: Output) -> None:
    if output is Output.YAML:
        import yaml

        typer.echo(yaml.safe_dump(summary.document(), sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(msgspec.json.format(msgspec.json.encode(summary.document()), indent=2).decode())


def findings_table(summary: "AuditSummary") -> list[str]:
    """One line per finding, some of each kind; or a line that says that there is none."""
    if summary.is_clean:
        return ["", "nothing is wrong"]
    shown: list[Finding] = []
    listed: dict[str, int] = {}
    for finding in summary.findings:
        listed[finding.kind] = listed.get(finding.kind, 0) + 1
        if listed[finding.kind] <= SHOWN:
            shown.append(finding)
    rows = [("TOPIC", "PARTITION", "KIND", "OFFSETS", "WHAT")]
    rows += [(each.topic, str(each.partition), each.kind, each.offsets, _sentence(each)) for each in shown]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "",
        *(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
            for row in rows
        ),
    ]
    for kind, count in summary.counts.items():
        if count > SHOWN:
            lines.append(f"... and {count - SHOWN} more of {kind} (--output json lists up to --keep of them)")
    return lines


def _sentence(finding: "Finding") -> str:
    if finding.file is None:
        return finding.sentence
    place = finding.file if finding.position is None else f"{finding.file} at byte {finding.position}"
    return f"{finding.sentence} ({place})"


app = command_app(audit)

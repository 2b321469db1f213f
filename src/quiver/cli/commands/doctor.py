"""`quiver doctor`: checks a broker and its data directory, and says what to do."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from quiver.cli.connection import ADDRESS_VARIABLE
from quiver.cli.doctor.finding import Finding, Verdict, worst
from quiver.cli.formats.output import Output, OutputOption, human_bytes, show_document, shown
from quiver.cli.http_source import HttpOption
from quiver.cli.lazy_group import command_app

WRONG_STATUS = 3

_MARKS = {Verdict.OK: "ok     ", Verdict.WARNING: "WARNING", Verdict.PROBLEM: "PROBLEM"}
_COUNTED = {Verdict.PROBLEM: "problems", Verdict.WARNING: "warnings", Verdict.OK: "checks passed"}
_INDENT = " " * 9


def doctor(
    address: Annotated[
        str | None,
        typer.Option("--address", "-a", envvar=ADDRESS_VARIABLE, help="The broker's native address."),
    ] = None,
    http: HttpOption = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="A data directory to check as well; without a broker that runs on it, nothing else."),
    ] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="A configuration file to check as well.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings also make the exit status 3.")] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE.tar.gz", help="Also write what somebody needs to help you, without messages."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a broker, its data directory and its configuration, and say what to do.

    The exit status is 0 when nothing is wrong, and 3 when there is a problem.
    """
    from quiver.cli.doctor.examination import Examination, Subject

    examination = Examination(Subject(address, http, data_dir, config))
    findings = list(dict.fromkeys(examination.findings()))
    verdict = worst(findings)
    if output is Output.TABLE:
        for line in _lines(findings):
            print(line)
    else:
        show_document({"verdict": verdict, "findings": findings}, output)
    if bundle is not None:
        from quiver.cli.doctor.bundle import write_bundle

        written = write_bundle(bundle, examination, findings)
        about = f"{written.path} has {written.entries} files, {human_bytes(written.size_bytes)}"
        typer.echo(f"quiver: {about}; look through it before you send it", err=True)
    if verdict is Verdict.PROBLEM or (strict and verdict is Verdict.WARNING):
        raise typer.Exit(WRONG_STATUS)


def _lines(findings: list[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{_MARKS[finding.verdict]}  {finding.check}: {shown(finding.message)}"
        if finding.advice:
            yield f"{_INDENT}{shown(finding.advice)}"
    counts = {verdict: sum(1 for finding in findings if finding.verdict is verdict) for verdict in Verdict}
    yield ""
    yield ", ".join(f"{counts[verdict]} {what}" for verdict, what in _COUNTED.items())


app = command_app(doctor)

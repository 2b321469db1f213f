"""Options that the commands of several jobs have."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quiver_spark.jobs.progress import Summary


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the summary.")]
BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--address",
        "-a",
        envvar="QUIVER_ADDRESS",
        metavar="HOST:PORT",
        help="The broker to read from.",
    ),
]
PathOption = Annotated[
    str | None,
    typer.Option("--path", metavar="DIR", help="A data directory (or a copy of one) to read without its broker."),
]
StartOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="POSITION", help="earliest, an offset, a time, a time ago (-2h), or JSON by partition."
    ),
]
EndOption = Annotated[
    str | None,
    typer.Option("--to", metavar="POSITION", help="Where to end, in the same way; at the latest message if absent."),
]
LossOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--skip-lost", help="Whether messages that are gone before they were read are an error."
    ),
]
LocalFilesOption = Annotated[
    bool | None,
    typer.Option(
        "--local-files/--through-broker",
        help="Whether tasks on the machine of the broker read its files; they do if neither is given.",
        show_default=False,
    ),
]
TimeoutOption = Annotated[
    str | None,
    typer.Option("--timeout", metavar="TIME", help="How long to wait for a broker that does not respond."),
]
CommitOption = Annotated[
    str | None,
    typer.Option(
        "--transaction-timeout",
        metavar="TIME",
        help="How long the rows of one commit may take, 15m if absent; the broker's transaction_max allows it.",
    ),
]
MasterOption = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="The Spark master; all cores of this machine if absent.")
]
ConfOption = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
ProgressOption = Annotated[
    bool | None, typer.Option("--progress/--no-progress", help="A progress bar; on a terminal if neither is given.")
]


def session_later(job: str, master: str | None, conf: Sequence[str] | None) -> "Callable[[], SparkSession]":
    """Returns a function that starts the session: that takes seconds. Raises InvalidRequest if Spark is not
    installed."""
    if find_spec("pyspark") is None or find_spec("deltalake") is None:
        raise InvalidRequest(problem='pipelines run on Spark, which is not installed: pip install "quivermq[spark]"')
    from quiver_spark.runtime.session import session

    return partial(session, f"quiver {job}", master, **settings(conf or ()))


def settings(conf: Sequence[str]) -> dict[str, Any]:
    """Settings of Spark by name."""
    found = {}
    for text in conf:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise InvalidRequest(problem=f"--conf {text!r} is not NAME=VALUE, such as spark.executor.memory=4g")
        found[name.strip()] = value.strip()
    return found


def source_options(
    topics: Sequence[str],
    pattern: str | None = None,
    *,
    bootstrap: str | None = None,
    path: str | None = None,
    **more: object,
) -> dict[str, object]:
    """The options of the source that were given on a command line.

    A directory takes precedence over an address, because the address may come from the environment.
    """
    named = {"topics": ",".join(topics) or None, "topicPattern": pattern, "path": path}
    given = {**named, "bootstrap": None if path else bootstrap, **more}
    return {name: value for name, value in given.items() if value is not None}


def show_summary(summary: "Summary", output: Output) -> None:
    """Prints to standard output: one line per figure for people, JSON or YAML for programs."""
    record = summary.record()
    match output:
        case Output.JSON:
            typer.echo(msgspec.json.format(msgspec.json.encode(record), indent=2).decode())
        case Output.YAML:
            import yaml

            typer.echo(yaml.safe_dump(record, sort_keys=False, allow_unicode=True), nl=False)
        case Output.TABLE:
            for line in summary.lines:
                typer.echo(line)
            record = {name: value for name, value in record.items() if not _is_for_programs(value)}
            width = max(map(len, record))
            for name, value in record.items():
                typer.echo(f"{name.replace('_', ' '):{width}}  {_shown(value)}")


def _is_for_programs(value: object) -> bool:
    if isinstance(value, list):
        return not value or any(isinstance(item, dict) for item in value)
    return isinstance(value, dict)


def _shown(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

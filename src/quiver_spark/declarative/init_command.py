"""`quiver pipeline init`."""

from pathlib import Path
from typing import Annotated

import typer

from quiver_spark.declarative.project import write_project
from quiver_spark.jobs.command_line import command_app
from quiver_spark.jobs.command_options import BootstrapOption


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A new directory; its name is the pipeline's.")],
    source: Annotated[str, typer.Option("--from", metavar="TOPIC", help="The topic that it reads.")] = "orders",
    target: Annotated[str, typer.Option("--to", metavar="TOPIC", help="The topic that it writes.")] = "large-orders",
    bootstrap: BootstrapOption = None,
) -> None:
    """Write the project of a declarative pipeline over topics, with expectations, tests and a README."""
    written = write_project(Path(name), source=source, target=target, bootstrap=bootstrap)
    for path in written:
        typer.echo(str(path))
    typer.echo(f"Messages that do not meet what {name}/orders.py expects become dead letters of {source}: edit it.")
    typer.echo(f"Then: quiver pipeline run {name}")


app = command_app(init)

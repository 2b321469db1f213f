"""`quiver pipeline package`."""

from pathlib import Path
from typing import Annotated

import typer

from quiver.model.errors import InvalidRequest
from quiver_spark.jobs.command_line import command_app
from quiver_spark.runtime.shipping import NEEDED_ON_WORKERS, ZIP_NAME, write_package


def package(
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="Where to write it; replaced if present.")] = (
        ZIP_NAME
    ),
) -> None:
    """Write Quiver's code as a zip for the workers of a cluster: for spark-submit and sessions of your own.

    `quiver pipeline` and `quiver_spark.session` ship it automatically.
    """
    try:
        made = write_package(Path(out))
    except OSError as error:
        raise InvalidRequest(problem=f"{out} cannot be written: {error.strerror}") from None
    typer.echo(f"{made.path}: {made.files:,} files, {made.size_bytes:,} bytes")
    typer.echo(f"spark-submit --py-files {made.path} ..., with {', '.join(NEEDED_ON_WORKERS)} on the workers")


app = command_app(package)

"""`quiver storage`: the tables of a database that a broker runs on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quiver.app.config import load_config
from quiver.cli.formats.output import Output, OutputOption, show_rows
from quiver.cli.lazy_group import group_app
from quiver.model.errors import InvalidSetting, QuiverError
from quiver.storage.postgres.database.address import PostgresAddress, parse_address

if TYPE_CHECKING:
    import asyncpg

app = group_app("Show and update the tables of a database that a broker runs on.")

StorageOption = Annotated[
    str | None, typer.Option("--storage", metavar="ADDRESS", help="postgresql://user@host/database?schema=quiver")
]
ConfigOption = Annotated[str | None, typer.Option("--config", metavar="FILE", help="A TOML file with settings.")]


@app.command()
def status(storage: StorageOption = None, config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show the version of the tables. The exit status is 3 when they are not up to date."""
    from quiver.storage.postgres.database.migrations import schema_status

    found = _run(storage, config, schema_status)
    state = "up to date" if found.version == found.newest else "newer than this Quiver" if not found.pending else ""
    row = {
        "schema": found.schema,
        "version": found.version,
        "newest": found.newest,
        "state": state or f"{found.pending} to run: quiver storage migrate",
    }
    show_rows([row], output)
    if found.version != found.newest:
        raise typer.Exit(3)


@app.command()
def migrate(storage: StorageOption = None, config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Create or update the tables. It may be repeated, also after it was interrupted."""
    from quiver.storage.postgres.database.migrations import migrate as run_migrations

    ran = _run(storage, config, run_migrations)
    show_rows([{"version": each.version, "name": each.name} for each in ran], output)


def _run(storage: str | None, config: str | None, work: "Callable[[asyncpg.Connection, str], Awaitable[Any]]") -> Any:
    configured = load_config({"storage": storage}, config_file=config).config.storage
    if configured is None:
        raise InvalidSetting(setting="storage", problem="name a database: --storage postgresql://user@host/database")
    return asyncio.run(_connected(parse_address(configured), work))


async def _connected(address: PostgresAddress, work: "Callable[[asyncpg.Connection, str], Awaitable[Any]]") -> Any:
    from quiver.storage.postgres.database.connections import ConnectionPool, PoolSettings
    from quiver.storage.postgres.database.errors import Failure, described

    try:
        connection = await ConnectionPool(address, PoolSettings()).connect()
        try:
            return await work(connection, address.schema)
        finally:
            await connection.close()
    except Failure as error:
        raise QuiverError(f"cannot use {address.shown}: {described(error)}") from error

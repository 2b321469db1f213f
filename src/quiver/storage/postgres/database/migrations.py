"""The tables of an installation: versions, and bringing them up to date.

Each file in `sql/migrations` is one version and runs in one transaction together with the note that it ran, under a
lock of the schema: one that was interrupted has left nothing, and two at the same time run one after the other.
"""

from importlib.resources import files
from typing import NamedTuple

import asyncpg

from quiver.model.errors import UnsupportedVersion


class Migration(NamedTuple):
    version: int
    name: str
    statements: str


class SchemaStatus(NamedTuple):
    schema: str
    version: int
    """0 where there is nothing yet."""
    newest: int

    @property
    def pending(self) -> int:
        return max(0, self.newest - self.version)


def migrations() -> list[Migration]:
    folder = files(__package__).joinpath("sql/migrations")
    found = []
    for file in folder.iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("-")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found)


async def schema_status(connection: asyncpg.Connection, schema: str) -> SchemaStatus:
    newest = migrations()[-1].version
    if await connection.fetchval("select to_regclass($1)", f'"{schema}".migration') is None:
        return SchemaStatus(schema, 0, newest)
    return SchemaStatus(schema, await _version(connection, schema), newest)


async def migrate(connection: asyncpg.Connection, schema: str) -> list[Migration]:
    """Runs what is missing and returns it. Raises UnsupportedVersion for tables of a newer version of Quiver."""
    ran = []
    while (migration := await _migrate_once(connection, schema)) is not None:
        ran.append(migration)
    return ran


async def _migrate_once(connection: asyncpg.Connection, schema: str) -> Migration | None:
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(hashtext($1), 1)", f"quiver {schema}")
        await connection.execute(f'create schema if not exists "{schema}"')
        await connection.execute(
            f'create table if not exists "{schema}".migration '
            "(version integer primary key, name text not null, ran_at timestamptz not null default now())"
        )
        version = await _version(connection, schema)
        check_version(SchemaStatus(schema, version, migrations()[-1].version))
        migration = next((each for each in migrations() if each.version > version), None)
        if migration is not None:
            await connection.execute(f'set local search_path to "{schema}"')
            await connection.execute(migration.statements)
            await connection.execute(
                "insert into migration (version, name) values ($1, $2)", migration.version, migration.name
            )
        return migration


async def _version(connection: asyncpg.Connection, schema: str) -> int:
    found = await connection.fetchval(f'select max(version) from "{schema}".migration')  # noqa: S608 - a checked name
    return int(found or 0)


def check_version(status: SchemaStatus) -> None:
    if status.version > status.newest:
        raise UnsupportedVersion(
            problem=f"the tables of schema {status.schema} have version {status.version}, and this Quiver knows "
            f"versions up to {status.newest}"
        )

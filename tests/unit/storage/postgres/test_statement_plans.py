"""The plans of the statements that run all the time: they find rows by an index, however large the tables are."""

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.database.connections import ConnectionPool, PoolSettings
from quiver.storage.postgres.database.migrations import migrate
from quiver.storage.postgres.database.statements import sql

LOGS, FRAMES = 3000, 20
FILL = f"""
insert into log (name, owner, owner_epoch, end_offset)
select 'l' || n, 1, 1, {FRAMES} from generate_series(1, {LOGS}) n;
insert into frame select l.id, n, n + 1, n, 1, n % 5, 'x'::bytea from log l, generate_series(0, {FRAMES - 1}) n;
analyze log; analyze frame;
"""
ARGUMENTS = {
    "append": "array[1], array[1], array[0], array[1], array[1], array[1], array[1], array[1], array[1], array[1], "
    "array[1], array['x'::bytea], 'on'",
    "read": "1, 5, 100, 1000000, 100",
    "find_priority": "1, 5, array[1, 2], 100, 0",
    "find_time": "1, 0, 100, 5",
    "frame_before": "1, 5, 0",
    "delete_frames": "1, 0, 5",
    "remove_frames": "1, 0, 5",
    "flush": "array[1, 2]",
}
KINDS = {
    "append": "bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], integer[], "
    "smallint[], bytea[], text",
    "read": "bigint, bigint, bigint, bigint, bigint",
    "find_priority": "bigint, bigint, smallint[], bigint, bigint",
    "find_time": "bigint, bigint, bigint, bigint",
    "frame_before": "bigint, bigint, bigint",
    "delete_frames": "bigint, bigint, bigint",
    "remove_frames": "bigint, bigint, bigint",
    "flush": "bigint[]",
}


@pytest.fixture
async def connection(database: str) -> AsyncIterator[asyncpg.Connection]:
    address = parse_address(database)
    connection = await asyncpg.connect(address.dsn, server_settings={"search_path": address.schema})
    await migrate(connection, address.schema)
    await connection.execute(FILL)
    yield connection
    await connection.close()


def scans(plan: dict[str, object]) -> list[tuple[str, str]]:
    """Every look into a table: how, and into which."""
    found = [(str(plan["Node Type"]), str(plan["Relation Name"]))] if "Relation Name" in plan else []
    parts = plan.get("Plans", [])
    assert isinstance(parts, list)
    return found + [scan for part in parts for scan in scans(part)]


async def test_a_statement_is_planned_once(database: str) -> None:
    """The server's own choice would plan an append each time: it takes ten logs for granted, and one is cheaper."""
    pool = ConnectionPool(parse_address(database), PoolSettings())
    connection = await pool.take()
    try:
        await migrate(connection, parse_address(database).schema)
        nothing: list[object] = [[] for _ in range(12)]
        for _ in range(10):
            await connection.fetch(sql("append"), *nothing, "on")
        plans = "select generic_plans, custom_plans from pg_prepared_statements where statement = $1"
        assert tuple(await connection.fetchrow(plans, sql("append"))) == (10, 0)
    finally:
        pool.give_back(connection, is_usable=False)
        await pool.close()


async def test_hot_statements_use_indexes(connection: asyncpg.Connection) -> None:
    await connection.execute("set plan_cache_mode = force_generic_plan")
    for name, arguments in ARGUMENTS.items():
        await connection.execute(f"prepare {name}_plan ({KINDS[name]}) as {sql(name)}")
        text = await connection.fetchval(f"explain (format json) execute {name}_plan ({arguments})")
        looks = [scan for scan in scans(json.loads(text)[0]["Plan"]) if scan[0] != "ModifyTable"]
        assert looks, name
        assert all("Index" in how or "Bitmap" in how for how, _ in looks), (name, looks)

"""Owners of a log in PostgreSQL, and appends whose outcome was unknown."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_cluster import PostgresCluster
from quiver.model.errors import PartitionOffline, StaleEpoch
from quiver.storage.port import LogOptions
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.log import PostgresLog
from quiver.storage.postgres.storage import PostgresStorage
from unit.log.frames import frame_at

FSYNC, INTERVAL = LogOptions(durability="fsync"), LogOptions(durability="interval")


async def opened(database: str) -> PostgresStorage:
    storage = PostgresStorage(parse_address(database))
    await storage.open()
    return storage


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresStorage]:
    storage = await opened(database)
    yield storage
    await storage.close()


async def bases(log: PostgresLog) -> list[int]:
    rows = await log._resources.database.fetch("frame_extents", log.state.id, 0, 2**62)
    return [row["base_offset"] for row in rows]


async def test_an_owner_that_was_replaced_stores_nothing(storage: PostgresStorage) -> None:
    log = await storage.open_log("a", FSYNC)
    await log.append([frame_at(0)])
    await storage.resources.database.fetch("open_log", "a", 7)  # as another broker does
    with pytest.raises(StaleEpoch):
        await log.append([frame_at(1)])
    assert log.failure == "another broker has taken it over"
    assert storage.problem is not None
    with pytest.raises(PartitionOffline):
        await log.append([frame_at(1)])
    assert await bases(log) == [0]


class ConnectionThatBreaks:
    """Breaks at its first statement, before it runs or after it."""

    def __init__(self, connection: asyncpg.Connection, *, runs_statement: bool) -> None:
        self._connection = connection
        self._runs_statement = runs_statement

    async def fetch(self, query: str, *values: object) -> list[object]:
        if self._runs_statement:
            await self._connection.fetch(query, *values)
        raise ConnectionResetError("cut")

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        self._connection.terminate()


@pytest.mark.parametrize("was_stored", [True, False])
async def test_an_append_without_a_response_is_stored_once(storage: PostgresStorage, was_stored: bool) -> None:
    """The connection breaks after the statement was sent: once after it was committed, once before."""
    log = await storage.open_log("a", FSYNC)
    await log.append([frame_at(0)])
    pool = storage.resources.database.pool
    broken = ConnectionThatBreaks(await pool.take(), runs_statement=was_stored)
    pool.give_back(broken)  # type: ignore[arg-type]
    await log.append([frame_at(1)])
    assert log.outage is None
    await log.append([frame_at(2)])
    assert await bases(log) == [0, 1, 2]


async def test_commits_that_the_database_lost_are_stored_again(
    storage: PostgresStorage, postgres: PostgresCluster, database: str
) -> None:
    schema = database.partition("schema=")[2]
    log = await storage.open_log("a", INTERVAL)
    await log.append([frame_at(0)])
    await log.sync()
    await log.append([frame_at(1)])
    await log.append([frame_at(2)])
    postgres.sql(f"delete from {schema}.frame where base_offset > 0; update {schema}.log set end_offset = 1")
    await log.append([frame_at(3)])
    assert await bases(log) == [0, 1, 2, 3]
    await log.append([frame_at(4)])
    postgres.sql(f"delete from {schema}.frame where base_offset > 3; update {schema}.log set end_offset = 4")
    await log.sync()
    assert await bases(log) == [0, 1, 2, 3, 4]
    assert log.end_offset == 5


async def test_a_database_that_is_behind_takes_the_log_offline(
    storage: PostgresStorage, postgres: PostgresCluster, database: str
) -> None:
    schema = database.partition("schema=")[2]
    log = await storage.open_log("a", FSYNC)
    await log.append([frame_at(0)])
    await log.append([frame_at(1)])
    postgres.sql(f"delete from {schema}.frame where base_offset > 0; update {schema}.log set end_offset = 1")
    with pytest.raises(PartitionOffline, match="ends at offset 1, but 2 was confirmed"):
        await log.append([frame_at(2)])


async def test_appends_of_many_logs_share_commits(storage: PostgresStorage) -> None:
    logs = [await storage.open_log(f"topics/{number}/0", FSYNC) for number in range(50)]
    commits = sum(storage.sync_times.seconds.counts)
    for turn in range(4):
        await asyncio.gather(*(log.append([frame_at(turn)]) for log in logs))
    assert sum(storage.sync_times.seconds.counts) - commits <= 8
    assert [log.end_offset for log in logs] == [4] * 50


async def test_frames_below_the_start_are_deleted_by_the_next_owner(storage: PostgresStorage, database: str) -> None:
    log = await storage.open_log("a", FSYNC)
    for number in range(3):
        await log.append([frame_at(number)])
        await log.roll()
    await storage.resources.database.fetch("drop_front", log.state.id, log.state.owner_epoch, 2)
    await storage.close()
    again = await opened(database)
    try:
        log = await again.open_log("a", FSYNC)
        assert log.start_offset == 2
        await again.resources.cleaner.finish()
        assert await bases(log) == [2]
    finally:
        await again.close()

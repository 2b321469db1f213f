"""Owners of a log in PostgreSQL, and appends whose outcome was unknown."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from postgres_cluster import PostgresCluster
from quiver.model.errors import PartitionOffline, StaleEpoch
from quiver.storage.port import LogOptions
from quiver.storage.postgres.appending.state import PostgresLogState
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.database.connections import PoolSettings
from quiver.storage.postgres.log import PostgresLog
from quiver.storage.postgres.storage import PostgresSettings, PostgresStorage
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


class ConnectionWithALateStatement:
    """Breaks at its first statement, which the server gets when `delivered` is set: a network may hold it back."""

    def __init__(self, connection: asyncpg.Connection) -> None:
        self._connection = connection
        self.delivered = asyncio.Event()
        self.late: asyncio.Task[list[object]] | None = None

    async def fetch(self, query: str, *values: object) -> list[object]:
        self.late = asyncio.create_task(self._deliver(query, *values))
        raise ConnectionResetError("cut")

    async def _deliver(self, query: str, *values: object) -> list[object]:
        await self.delivered.wait()
        rows: list[object] = await self._connection.fetch(query, *values)
        return rows

    def is_closed(self) -> bool:
        return False

    def terminate(self) -> None:
        """The server does not notice."""


@pytest.mark.parametrize("is_before_the_retry", [True, False])
async def test_a_first_try_that_comes_late_stores_nothing(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch, is_before_the_retry: bool
) -> None:
    """It comes after the log was taken again: before the append is sent once more, or after that."""
    log = await storage.open_log("a", FSYNC)
    await log.append([frame_at(0)])
    pool, recovery = storage.resources.database.pool, storage.resources.recovery
    broken, take_again = ConnectionWithALateStatement(await pool.take()), recovery.take_again

    async def taken_again(state: PostgresLogState) -> object:
        row = await take_again(state)
        if is_before_the_retry:
            broken.delivered.set()
            assert broken.late is not None
            await asyncio.wait([broken.late])
        return row

    monkeypatch.setattr(recovery, "take_again", taken_again)
    pool.give_back(broken)  # type: ignore[arg-type]
    await log.append([frame_at(1)])
    broken.delivered.set()
    assert broken.late is not None
    assert await broken.late == []
    await log.append([frame_at(2)])
    assert await bases(log) == [0, 1, 2]
    broken._connection.terminate()


async def test_a_retry_waits_for_a_first_try_that_is_still_running(
    storage: PostgresStorage, postgres: PostgresCluster, database: str
) -> None:
    """The first try waits for a lock when its connection breaks, and commits after the retry has begun to look."""
    log = await storage.open_log("a", FSYNC)
    await log.append([frame_at(0)])
    locker = await storage.resources.database.pool.connect()
    locked = locker.transaction()
    await locked.start()
    await locker.fetch("select 1 from log where id = $1 for update", log.state.id)
    append = asyncio.create_task(log.append([frame_at(1)]))
    await _await_waiting(locker, "with fenced%", 1)
    storage.resources.database.pool.end_taken()
    await _await_waiting(locker, "update log set owner_epoch%", 1)
    await locked.commit()
    await append
    assert log.outage is None
    await log.append([frame_at(2)])
    assert await bases(log) == [0, 1, 2]
    locker.terminate()


async def test_a_commit_that_takes_too_long_is_stored_once(database: str) -> None:
    """The driver gives up a statement after its time, and nobody knows what the server does with it."""
    storage = PostgresStorage(parse_address(database), PostgresSettings(PoolSettings(statement_seconds=0.3)))
    await storage.open()
    try:
        log = await storage.open_log("a", FSYNC)
        await log.append([frame_at(0)])
        locker = await storage.resources.database.pool.connect()
        locked = locker.transaction()
        await locked.start()
        await locker.fetch("select 1 from log where id = $1 for update", log.state.id)
        append = asyncio.create_task(log.append([frame_at(1)]))
        await _await_waiting(locker, "update log set owner_epoch%", 1)
        assert storage.outage == "it does not respond"
        await locked.commit()
        await append
        await log.append([frame_at(2)])
        assert await bases(log) == [0, 1, 2]
        locker.terminate()
    finally:
        await storage.close()


async def _await_waiting(connection: asyncpg.Connection, query: str, count: int) -> None:
    """Until so many statements of this form wait for a lock."""
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and ltrim(query) like $1"
    async with asyncio.timeout(30):
        while await connection.fetchval(waiting, query) < count:
            await connection.execute("select pg_stat_clear_snapshot()")  # it is kept within a transaction


async def test_a_server_that_does_not_respond_is_noticed_soon(database: str) -> None:
    """A statement that waits for a server that takes no connections any more does not wait for its own time."""
    settings = PoolSettings(connect_seconds=0.3, slow_seconds=0.1)
    storage = PostgresStorage(parse_address(database), PostgresSettings(settings))
    await storage.open()
    pool = storage.resources.database.pool
    connect = pool.connect
    try:
        log = await storage.open_log("a", FSYNC)
        locker = await connect()
        locked = locker.transaction()
        await locked.start()
        await locker.fetch("select 1 from log where id = $1 for update", log.state.id)
        append = asyncio.create_task(log.append([frame_at(0)]))
        await _await_waiting(locker, "with fenced%", 1)
        assert storage.outage is None, "it is only slow"

        asked = asyncio.Event()

        async def no_answer() -> asyncpg.Connection:
            asked.set()
            raise TimeoutError

        pool.connect = no_answer  # type: ignore[method-assign]
        async with asyncio.timeout(15):
            await asked.wait()
            while storage.outage is None:
                await asyncio.sleep(0)
        assert storage.outage == "it does not respond"
        pool.connect = connect  # type: ignore[method-assign]
        await locked.commit()
        await append
        assert await bases(log) == [0]
        locker.terminate()
    finally:
        pool.connect = connect  # type: ignore[method-assign]
        await storage.close()


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

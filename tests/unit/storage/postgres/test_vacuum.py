"""Tables do not grow while messages go in and out, however rarely autovacuum looks."""

from collections.abc import AsyncIterator

import pytest

from quiver.storage.port import LogOptions
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.log import PostgresLog
from quiver.storage.postgres.storage import PostgresStorage
from unit.log.frames import frame_at

FRAMES = 200
SIZE = """
select sum(pg_total_relation_size(oid)) from pg_class
where relname ~ '^frame_[0-7]$' and relkind = 'r' and pg_table_is_visible(oid)
"""
AUTOVACUUM_OFF = "alter table frame_{0} set (autovacuum_enabled = false, toast.autovacuum_enabled = false)"


@pytest.fixture
async def storage(database: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(parse_address(database))
    await storage.open()
    yield storage
    await storage.close()


async def _in_and_out(storage: PostgresStorage, log: PostgresLog) -> int:
    """What the tables have after it."""
    start = log.end_offset
    await log.append([frame_at(start + number, body=b"x" * 5_000) for number in range(FRAMES)])
    await log.roll()
    await log.drop_front(log.end_offset)
    cleaner = storage.resources.cleaner
    await cleaner.finish()
    await cleaner.vacuum.finish()
    return await _size(storage)


async def _size(storage: PostgresStorage) -> int:
    async with storage.resources.database.connection() as connection:
        return int(await connection.fetchval(SIZE))


async def _without_autovacuum(storage: PostgresStorage) -> None:
    async with storage.resources.database.connection() as connection:
        for number in range(8):
            await connection.execute(AUTOVACUUM_OFF.format(number))


async def test_the_space_of_removed_frames_is_used_again(storage: PostgresStorage) -> None:
    await _without_autovacuum(storage)
    storage.resources.cleaner.vacuum.least_bytes = FRAMES * 5_000 // 2
    log = await storage.open_log("a", LogOptions(durability="fsync"))
    sizes = [await _in_and_out(storage, log) for _ in range(8)]
    assert max(sizes[2:]) <= sizes[1] * 1.2, sizes


async def test_little_is_left_to_autovacuum(storage: PostgresStorage) -> None:
    await _without_autovacuum(storage)
    log = await storage.open_log("a", LogOptions(durability="fsync"))
    sizes = [await _in_and_out(storage, log) for _ in range(3)]
    assert sizes[2] > sizes[0] * 2, "a few megabytes are not worth a vacuum"


async def test_a_vacuum_that_fails_is_no_outage(storage: PostgresStorage) -> None:
    vacuum = storage.resources.cleaner.vacuum
    vacuum.note("no_such_table", 1 << 30, 1 << 30)
    await vacuum.finish()
    assert storage.resources.database.problem is None
    log = await storage.open_log("a", LogOptions(durability="fsync"))
    await log.append([frame_at(0)])

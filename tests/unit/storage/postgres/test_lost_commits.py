"""Commits that were not waited for, and that a crash of the server has taken: they are back before anybody reads."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from postgres_cluster import PostgresCluster, open_directory, programs
from quiver.model.errors import PartitionOffline, StaleEpoch, StorageUnavailable
from quiver.storage.port import LogOptions
from quiver.storage.postgres.database.address import parse_address
from quiver.storage.postgres.log import PostgresLog
from quiver.storage.postgres.storage import PostgresStorage
from unit.log.frames import frame_at

INTERVAL, COUNT = LogOptions(durability="interval"), 40
SECONDS = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    """Syncs commits, but those that are not waited for only after ten seconds."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (scripts/system-packages installs it)")
    with open_directory() as directory:
        made = PostgresCluster(directory / "primary", durable=True, settings=("wal_writer_delay=10s",)).create()
        try:
            yield made.start()
        finally:
            made.kill()


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    return f"test_{zlib.crc32(request.node.name.encode()):08x}"


@pytest.fixture
async def storage(cluster: PostgresCluster, schema: str) -> AsyncIterator[PostgresStorage]:
    storage = PostgresStorage(parse_address(f"{cluster.address}?schema={schema}"))
    await storage.open()
    yield storage
    await storage.close()


async def until(check: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not check():
            await asyncio.sleep(0)


async def appended(storage: PostgresStorage) -> list[PostgresLog]:
    """Logs whose last frames are committed and not on disk. The first ones are, with what is reserved ahead."""
    logs = [await storage.open_log(name, INTERVAL) for name in ("a", "b")]
    for offset in range(COUNT):
        for log in logs:
            await log.append([frame_at(offset)])
    assert all(log.state.unsynced for log in logs)
    return logs


async def crash(cluster: PostgresCluster, storage: PostgresStorage) -> None:
    """Returns at the moment from which the database can be used again."""
    cluster.kill()
    await until(lambda: storage.outage)
    await asyncio.to_thread(cluster.start)
    await until(lambda: not storage.outage)


async def test_they_are_stored_again_before_anything_is_read(
    cluster: PostgresCluster, storage: PostgresStorage, caplog: pytest.LogCaptureFixture
) -> None:
    logs = await appended(storage)
    await crash(cluster, storage)
    for log in logs:
        row = await storage.resources.database.fetch_row("take_again", log.state.id, log.state.owner)
        assert row["end_offset"] == COUNT
        found = await log.find_priority(1, 0b11111)
        assert found == 1, "a reader that finds nothing would pass over them"
        assert f"{log.log_id}: the database had lost frames" in caplog.text
    for log in logs:
        await log.append([frame_at(COUNT)])
        assert (log.end_offset, log.failure) == (COUNT + 1, None)


async def test_a_crash_is_noticed_though_no_connection_has_ended(
    cluster: PostgresCluster, storage: PostgresStorage
) -> None:
    """As when the network was cut for as long as the server was away."""
    log, _ = await appended(storage)
    storage._holder = None  # its end is not noticed
    storage.resources.database.pool.drop_idle()
    cluster.kill()
    cluster.start()
    assert storage.outage is None
    with pytest.raises(StorageUnavailable):
        await log.find_priority(1, 0b11111)
    await until(lambda: not storage.outage)
    assert await log.find_priority(1, 0b11111) == 1


async def test_a_log_that_somebody_else_has_opened_meanwhile_keeps_nobody_waiting(
    cluster: PostgresCluster, storage: PostgresStorage, schema: str
) -> None:
    lost, other = await appended(storage)
    cluster.kill()
    await until(lambda: storage.outage)
    await asyncio.to_thread(cluster.start)
    cluster.sql(f"update {schema}.log set owner = owner + 1, owner_epoch = owner_epoch + 1 where name = 'a'")
    await until(lambda: not storage.outage)
    with pytest.raises((PartitionOffline, StaleEpoch)):
        await lost.append([frame_at(COUNT)])
    await lost.discard()
    await other.append([frame_at(COUNT)])
    assert await other.find_priority(1, 0b11111) == 1

"""Compaction while a replica is away, or gets what it lacks: deleted keys stay deleted."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from quiver.replication.leading.recent_frames import KEPT_BYTES
from quiver.replication.settings import ReplicationSettings
from quiver.replication.unit import start_epoch
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import Log, LogOptions
from quiver.testing.replication.direct import ReplicaGroup
from unit.log.keyed import Row, everything, keyed_frame, stored_messages

LOG, EPOCH = "topics/1/0", start_epoch(0, 1)
OPTIONS = LogOptions(segment_bytes=1)
SLOW = ReplicationSettings(
    call_seconds=5.0, idle_seconds=0.02, lag_seconds=0.4, call_bytes=4096, catch_up_bytes_per_second=1
)


class Replicas(ReplicaGroup):
    def __init__(self) -> None:
        self.locals = [MemoryStorage(), MemoryStorage(), MemoryStorage()]
        super().__init__(self.locals, SLOW)

    async def open_led(self) -> Log:
        return await (await self.lead()).open_log(LOG, OPTIONS)

    async def local(self, node: int) -> Log:
        return await self.locals[node].open_log(f"units/0/{LOG}", OPTIONS)

    async def set_limit(self, bytes_per_second: int) -> None:
        """Of what a node that is added gets."""
        await self.write(msgspec.structs.replace(self.unit(), throttle_bytes_per_sec=bytes_per_second))

    async def until_in_sync(self, *nodes: int) -> None:
        async with asyncio.timeout(30):
            while set(self.unit().isr) != set(nodes):
                await asyncio.sleep(0)


@pytest.fixture
async def group() -> AsyncIterator[Replicas]:
    group = Replicas()
    await group.open()
    yield group
    await group.close()


async def append(log: Log, *rows: Row) -> None:
    await log.append([keyed_frame(log.end_offset + n, [row], epoch=EPOCH) for n, row in enumerate(rows)])


async def keys(log: Log) -> set[bytes | None]:
    """Those that have a value."""
    last = {each.key: each.value for each in await stored_messages(log)}
    return {key for key, value in last.items() if value is not None}


async def test_a_replica_that_was_away_during_a_compaction_begins_again(group: Replicas) -> None:
    log = await group.open_led()
    await append(log, (b"gone", b"value"), (b"kept", b"value"))
    group.cut_off.add(2)
    await append(log, (b"gone", None), (b"other", bytes(KEPT_BYTES)))  # the tombstone is on disk only
    await group.until_in_sync(0, 1)
    await log.roll()
    await log.compact(everything(log, tombstone_retention_ms=0))
    assert await keys(log) == {b"kept", b"other"}
    group.cut_off.clear()
    unit = group.unit()
    await group.write(msgspec.structs.replace(unit, adding=(2,), throttle_bytes_per_sec=1 << 30))
    await group.until_in_sync(0, 1, 2)
    assert await keys(await group.local(2)) == {b"kept", b"other"}
    assert (await group.local(2)).end_offset == log.end_offset


async def test_a_compaction_does_not_pass_a_replica_that_catches_up(group: Replicas) -> None:
    log = await group.open_led()
    unit = group.unit()
    await group.write(msgspec.structs.replace(unit, replicas=(0, 1), isr=(0, 1)))
    await append(log, (b"gone", b"value"), *[(b"%d" % number, bytes(1024)) for number in range(20)])
    await append(log, (b"gone", None), (b"last", b"value"))
    await log.roll()
    await group.write(msgspec.structs.replace(group.unit(), replicas=(0, 1, 2), adding=(2,)))
    replica = await group.local(2)
    async with asyncio.timeout(30):
        while not replica.end_offset:  # the first call has little of it; then it waits for its limit
            await asyncio.sleep(0)
    assert replica.end_offset < 20
    await log.compact(everything(log, tombstone_retention_ms=0))
    assert b"gone" in [each.key for each in await stored_messages(log)], "the replica has not got the tombstone yet"
    await group.set_limit(1 << 30)
    await group.until_in_sync(0, 1, 2)
    await log.compact(everything(log, tombstone_retention_ms=0))
    assert b"gone" not in [each.key for each in await stored_messages(log)]
    async with asyncio.timeout(30):
        while await stored_messages(replica) != await stored_messages(log):  # it compacts by itself
            await asyncio.sleep(0)
